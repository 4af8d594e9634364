//! What `grants` and `revoke` print: a card for each session grant.

use super::card::Card;
use crate::cli::output::Screen;
use crate::cli::text;
use crate::pb;

/// Cards of grants; `more` tells whether the server has further pages.
pub(in crate::cli) fn grants(listed: &[pb::Grant], more: bool, screen: &Screen) -> String {
    if listed.is_empty() && !more {
        return "no live grants\n".to_owned();
    }
    let cards: Vec<String> = listed
        .iter()
        .map(|listed| card(listed, "ends", screen))
        .collect();
    let mut page = cards.join("\n");
    if more {
        page.push_str("\nthere are more: `--all` lists them all\n");
    }
    page
}

/// What `revoke` prints.
pub(in crate::cli) fn revoked(grant: &pb::Grant, screen: &Screen) -> String {
    card(grant, "ended", screen)
}

fn card(grant: &pb::Grant, end: &'static str, screen: &Screen) -> String {
    let pb::Grant {
        id,
        scope,
        tool,
        server,
        arguments_digest,
        by,
        suspension_id,
        create_time,
        expire_time,
        policy_revision,
    } = grant;
    let scope = scope.clone().unwrap_or_default();
    let principal = scope.principal.unwrap_or_default();
    let mut card = Card::default();
    card.line("grant", id);
    card.line("tool", tool);
    card.line("mcp server", server);
    card.line("digest", arguments_digest);
    card.line("session", &scope.session_id);
    card.line("principal", &principal.id);
    card.names("agent path", &scope.agent_path);
    card.line("given by", by);
    card.moment("given", create_time.as_ref(), &screen.now);
    card.moment(end, expire_time.as_ref(), &screen.now);
    card.line("approval", suspension_id);
    card.line("policy", policy_revision);
    if end == "ends" {
        let tenant = match scope.tenant.as_str() {
            "" => String::new(),
            tenant => format!(" --tenant={}", text::shell_word(tenant)),
        };
        let id = text::shell_word(id);
        let flag = &screen.server_flag;
        card.command(
            "to end it",
            &format!("assent revoke {id}{tenant} --by YOU{flag}"),
        );
    }
    card.render(screen)
}
