//! A document of many rules, of which the last one decides.

use std::fmt::Write as _;

/// The condition of [`with_rules`] that reads arguments and roles.
pub(crate) const CONDITION: &str =
    "when: \"args.limit > NUMBER && 'support' in principal.roles\", ";

/// So many rules, the last of which decides: most name a tool, each tenth a family of tools. All but the last have the
/// condition, with a number of their own.
pub(crate) fn with_rules(count: u32, condition: &str) -> String {
    let mut text = "rules:\n".to_owned();
    for number in 1..count {
        let tool = if number % 10 == 0 { "*" } else { "update" };
        let condition = condition.replace("NUMBER", &number.to_string());
        let _ = writeln!(
            text,
            "  - {{id: rule-{number}, tools: [\"service_{number}.{tool}\"], {condition}decision: deny}}"
        );
    }
    text.push_str("  - {id: search-own-region, tools: [\"crm.*\"], when: args.limit <= 500, decision: allow}\n");
    text
}
