//! Keys of a rule that have no effect, or another one than they seem to have beside each other.

use super::{Found, Rule, Subject};
use crate::domain::Decision;
use crate::policy::document::{ApprovalDocument, Text, WaitDocument};
use crate::policy::error::quoted;

pub(super) fn lint(subject: &Subject<'_, '_>, found: &mut Found) {
    for rule in &subject.rules {
        lists(rule, found);
        unused_approval(rule, found);
    }
}

/// A `decision` that the lists stand in for, or soften.
fn lists(rule: &Rule<'_, '_>, found: &mut Found) {
    let written = rule.written;
    let denies = written.decision == Decision::Deny;
    let id = quoted(&written.id.value);
    let first = |list: &[Text<'_>]| list.first().map(|text| text.value.clone());
    if first(&written.allowlist).is_some() && written.decision != Decision::Ask {
        let decision = if denies { "deny" } else { "allow" };
        found.warn(
            "unused-decision",
            written.id.place(),
            format!(
                "rule {id} has an `allowlist`, and what it does not match asks, so `decision: {decision}` has no effect: write `decision: ask`, or a rule of its own behind it"
            ),
        );
    } else if let Some(glob) = first(&written.sensitive)
        && denies
    {
        found.warn(
            "softened-deny",
            written.id.place(),
            format!(
                "rule {id} denies, but where its `sensitive` matches, such as {}, it asks: move the glob to a rule of its own, or remove it",
                quoted(&glob)
            ),
        );
    }
}

/// `approval` in a rule that only denies, and so opens no prompt.
fn unused_approval(rule: &Rule<'_, '_>, found: &mut Found) {
    let written = rule.written;
    let ApprovalDocument {
        wait: WaitDocument { expires, on_expiry },
        approvers,
    } = &written.approval;
    let has_terms = expires.is_some() || on_expiry.is_some() || approvers.is_some();
    let asks = !written.sensitive.is_empty() || !written.allowlist.is_empty();
    if has_terms && written.decision == Decision::Deny && !asks {
        found.warn(
            "unused-approval",
            written.id.place(),
            format!(
                "rule {} denies, and what is denied asks nobody, so its `approval` has no effect: remove it",
                quoted(&written.id.value)
            ),
        );
    }
}
