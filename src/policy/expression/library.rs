//! The names that a condition may use: variables, their fields, types and functions.

use super::facts::Read;
use super::habits::instead_of;
use crate::policy::error::{listed, suggestion};

/// The variables that a condition knows.
pub(super) const VARIABLES: [&str; 5] = ["args", "tool", "scope", "principal", "now"];
/// The names of types, which `type(x)` gives.
pub(super) const TYPES: [&str; 10] = [
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "list",
    "map",
    "null_type",
    "type",
];
/// The fields of `tool`.
pub(super) const TOOL: [(&str, Read); 5] = [
    ("id", Read::ToolId),
    ("title", Read::ToolTitle),
    ("class", Read::ToolClass),
    ("origin", Read::ToolOrigin),
    ("server", Read::ToolServer),
];
/// The fields of `scope`.
pub(super) const SCOPE: [(&str, Read); 4] = [
    ("tenant", Read::Tenant),
    ("session", Read::Session),
    ("run", Read::Run),
    ("agent_path", Read::AgentPath),
];
/// The fields of `principal`.
pub(super) const PRINCIPAL: [(&str, Read); 3] = [
    ("id", Read::PrincipalId),
    ("roles", Read::PrincipalRoles),
    ("attributes", Read::PrincipalAttributes),
];

/// Functions called as `f(x)`, with how many operands.
const FUNCTIONS: [(&str, usize); 12] = [
    ("size", 1),
    ("type", 1),
    ("dyn", 1),
    ("bool", 1),
    ("int", 1),
    ("uint", 1),
    ("double", 1),
    ("string", 1),
    ("bytes", 1),
    ("timestamp", 1),
    ("duration", 1),
    ("matches", 2),
];
/// Functions called as `x.f(y)`, with how few and how many operands besides `x`.
const METHODS: [(&str, usize, usize); 15] = [
    ("size", 0, 0),
    ("contains", 1, 1),
    ("startsWith", 1, 1),
    ("endsWith", 1, 1),
    ("matches", 1, 1),
    ("getFullYear", 0, 1),
    ("getMonth", 0, 1),
    ("getDate", 0, 1),
    ("getDayOfMonth", 0, 1),
    ("getDayOfWeek", 0, 1),
    ("getDayOfYear", 0, 1),
    ("getHours", 0, 1),
    ("getMinutes", 0, 1),
    ("getSeconds", 0, 1),
    ("getMilliseconds", 0, 1),
];
/// Macros, which the parser has expanded unless they were called in another way than this.
const MACROS: [(&str, &str); 7] = [
    ("has", "has(args.key)"),
    ("all", "list.all(x, condition)"),
    ("exists", "list.exists(x, condition)"),
    ("exists_one", "list.exists_one(x, condition)"),
    ("existsOne", "list.existsOne(x, condition)"),
    ("map", "list.map(x, value)"),
    ("filter", "list.filter(x, condition)"),
];

/// Whether there is a function of that name that takes so many operands.
pub(super) fn signature(name: &str, method: bool, operands: usize) -> Result<(), String> {
    if let Some((_, usage)) = MACROS.iter().find(|(known, _)| *known == name) {
        return Err(format!("`{name}` is called as `{usage}`"));
    }
    let range = if method {
        METHODS
            .iter()
            .find(|(known, ..)| *known == name)
            .map(|(_, least, most)| *least..=*most)
    } else {
        FUNCTIONS
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, count)| *count..=*count)
    };
    let called = if method {
        format!("x.{name}()")
    } else {
        format!("{name}()")
    };
    let Some(range) = range else {
        let names: Vec<&str> = if method {
            METHODS
                .iter()
                .map(|(name, ..)| *name)
                .chain(MACROS.iter().skip(1).map(|(name, _)| *name))
                .collect()
        } else {
            FUNCTIONS
                .iter()
                .map(|(name, _)| *name)
                .chain(["has"])
                .collect()
        };
        return Err(format!(
            "there is no function `{called}`, there are {}{}{}",
            listed(&names),
            suggestion(name, &names),
            instead_of(name)
        ));
    };
    if range.contains(&operands) {
        return Ok(());
    }
    let count = if range.start() == range.end() {
        range.start().to_string()
    } else {
        format!("{} to {}", range.start(), range.end())
    };
    Err(format!(
        "`{called}` takes {count} operands in its parentheses, and here it has {operands}"
    ))
}
