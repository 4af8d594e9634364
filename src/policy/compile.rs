//! From a document that was read to the policy that serves: what its keys mean together, and what they may not say.
//!
//! The keys themselves are read in `document`; nothing here is asked again once a call is judged.

use std::collections::HashMap;
use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::document::{Document, Mode, PinDocument, RuleDocument, Text};
use super::error::{Place, PolicyError};
use super::expression;
use super::lint::lint;
use super::rules::Rule;
use super::tool_list::{ToolList, tool_pattern};
use super::wrapper::Wrappers;
use super::{Policy, Source};
use crate::classify::Pins;
use crate::domain::{Id, RiskClass};

impl Policy {
    /// Compiles the files of one document: lists concatenate in the order given, any other key may stand in one file.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place. No sources at all are an error, as a policy that has
    /// disappeared must not become one that allows everything (S12).
    pub fn compile(sources: &[Source]) -> Result<Self, PolicyError> {
        if sources.is_empty() {
            return Err(PolicyError {
                file: "policy".to_owned(),
                line: 1,
                column: 1,
                message:
                    "there is no document: write at least one file that ends in `.yaml` or `.yml`"
                        .to_owned(),
            });
        }
        let document = Document::read(sources)?;
        let warnings = lint(&document, sources);
        let mut policy = Self::build(document, revision(sources))?;
        policy.warnings = warnings?;
        Ok(policy)
    }

    /// Whether these are the texts that were compiled.
    pub fn is_of(&self, sources: &[Source]) -> bool {
        self.revision == revision(sources)
    }

    fn build(document: Document<'_>, revision: String) -> Result<Self, PolicyError> {
        let mut policy = Self {
            revision,
            ..Self::defaults()
        };
        let Document {
            mode,
            selectors,
            always,
            never,
            default,
            rules,
            tools,
            trusted_servers,
            policy_port,
            wrappers,
            suspensions,
            grants,
            limits,
        } = document;
        policy.mode = match mode {
            Some((_, Mode::Always(decision))) => Some(decision),
            Some((_, Mode::Auto)) | None => None,
        };
        policy.default = default.unwrap_or(policy.default);
        if let Some((_, selectors)) = selectors {
            let selects = |class| selectors.contains(&class);
            policy.selectors = [
                selects(RiskClass::ReadOnly),
                selects(RiskClass::Write),
                selects(RiskClass::Destructive),
            ];
        }
        policy.wrappers = Wrappers::compile(wrappers)?;
        policy.always = ToolList::compile("always", &always)?;
        policy.never = ToolList::compile("never", &never)?;
        policy.catalogue = catalogue(tools)?;
        policy.trusted_servers = trusted_servers;
        policy.port = policy_port;
        let terms = &mut policy.approval;
        terms.expires = suspensions.approval.expires.unwrap_or(terms.expires);
        terms.on_expiry = suspensions.approval.on_expiry.unwrap_or(terms.on_expiry);
        policy.waits.set(&suspensions);
        policy.retention = suspensions.retention.unwrap_or(policy.retention);
        policy.claim_within = suspensions.claim_within.unwrap_or(policy.claim_within);
        policy.claim_lease = suspensions.claim_lease.unwrap_or(policy.claim_lease);
        policy.grants_expire = grants.unwrap_or(policy.grants_expire);
        policy.limits = limits;
        policy.add_rules(rules)?;
        Ok(policy)
    }

    fn add_rules(&mut self, rules: Vec<RuleDocument<'_>>) -> Result<(), PolicyError> {
        let texts: Vec<Option<&Text<'_>>> = rules.iter().map(|rule| rule.when.as_ref()).collect();
        let (conditions, mut compiled) = expression::compile(&texts)?;
        self.conditions = conditions;
        compiled.reverse();
        for (position, rule) in (0_usize..).zip(rules) {
            for pattern in &rule.tools {
                self.rules_by_tool
                    .add(position, tool_pattern("tools", pattern)?);
            }
            let when = compiled.pop().flatten();
            self.rules.push(Rule::compile(rule, when, &self.approval)?);
        }
        Ok(())
    }
}

fn catalogue(tools: Vec<PinDocument<'_>>) -> Result<HashMap<Id, Pins>, PolicyError> {
    let mut catalogue: HashMap<Id, Pins> = HashMap::new();
    let mut places: HashMap<(Id, Id), Place<'_>> = HashMap::new();
    for PinDocument {
        place,
        tool,
        server,
        annotations,
    } in tools
    {
        if let Some(first) = places.insert((tool.clone(), server.clone()), place) {
            let of = if server.is_empty() {
                " without a server".to_owned()
            } else {
                format!(" of server `{server}`")
            };
            return Err(place.error(format!(
                "`tools`: `{tool}`{of} is in the catalogue already, at {}: keep one of the two",
                first.describe()
            )));
        }
        // The table of places has refused what `add` would.
        let _ = catalogue.entry(tool).or_default().add(server, annotations);
    }
    Ok(catalogue)
}

/// Each text is hashed behind its length, so that moving a line from one file to the next shows.
pub(super) fn revision(sources: &[Source]) -> String {
    let mut hasher = Sha256::new();
    for text in sources.iter().flat_map(|source| {
        let file = source.name.rsplit('/').next().unwrap_or_default();
        // One document is the same under any name.
        [if sources.len() > 1 { file } else { "" }, &source.text]
    }) {
        hasher.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
        hasher.update(text);
    }
    let mut revision = String::with_capacity(16);
    for byte in hasher.finalize().iter().take(8) {
        let _ = write!(revision, "{byte:02x}");
    }
    revision
}
