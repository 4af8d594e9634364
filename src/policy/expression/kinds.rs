//! What can be seen of the type of an expression before it runs.

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};

use super::facts::Read;
use super::library::TYPES;
use super::slots::{
    ADD, DIFFERS, EQUALS, GREATER, GREATER_EQUALS, IN, LESS, LESS_EQUALS, MATCHES, Table, slot_of,
};

/// A type, where numbers are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Bytes,
    Duration,
    List,
    Map,
    Null,
    Number,
    String,
    Timestamp,
    Type,
}

impl Kind {
    /// What a value of it is.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bool => "true or false",
            Self::Bytes => "bytes",
            Self::Duration => "a duration",
            Self::List => "a list",
            Self::Map => "a map",
            Self::Null => "null",
            Self::Number => "a number",
            Self::String => "a string",
            Self::Timestamp => "a timestamp",
            Self::Type => "a type",
        }
    }
}

/// What an expression is, where it can be seen that it is never true or false.
pub(super) fn never_boolean(expression: &IdedExpr, table: &Table) -> Option<&'static str> {
    if let Expr::Call(call) = &expression.expr {
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR, [left, right]) => {
                return never_boolean(left, table).or_else(|| never_boolean(right, table));
            }
            (operators::LOGICAL_NOT, [operand]) => return never_boolean(operand, table),
            (operators::CONDITIONAL, [_, yes, no]) => {
                return never_boolean(yes, table).or_else(|| never_boolean(no, table));
            }
            (
                ADD
                | operators::ADD
                | operators::SUBSTRACT
                | operators::MULTIPLY
                | operators::DIVIDE
                | operators::MODULO
                | operators::NEGATE,
                _,
            ) => return Some("the result of arithmetic"),
            _ => {}
        }
    }
    kind(expression, table)
        .filter(|kind| *kind != Kind::Bool)
        .map(Kind::name)
}

/// The type of an expression's value, whatever it reads, where that can be seen.
pub(super) fn kind(expression: &IdedExpr, table: &Table) -> Option<Kind> {
    match &expression.expr {
        Expr::Literal(literal) => Some(match literal {
            LiteralValue::Boolean(_) => Kind::Bool,
            LiteralValue::Bytes(_) => Kind::Bytes,
            LiteralValue::Double(_) | LiteralValue::Int(_) | LiteralValue::UInt(_) => Kind::Number,
            LiteralValue::Null => Kind::Null,
            LiteralValue::String(_) => Kind::String,
        }),
        Expr::List(_) => Some(Kind::List),
        Expr::Map(_) => Some(Kind::Map),
        // No variable has the name of a type.
        Expr::Ident(name) if TYPES.contains(&name.as_str()) => Some(Kind::Type),
        Expr::Ident(name) => kind_of_fact(table.what(slot_of(name)?)?),
        Expr::Call(call) => kind_of_call(call, table),
        Expr::Comprehension(comprehension) => match &comprehension.accu_init.expr {
            Expr::List(_) => Some(Kind::List),
            _ => kind(&comprehension.accu_init, table).filter(|kind| *kind == Kind::Bool),
        },
        Expr::Select(select) if select.test => Some(Kind::Bool),
        Expr::Select(select) => match &select.operand.expr {
            Expr::Ident(name) => {
                let read = table.what(slot_of(name)?)?;
                (*read == Read::PrincipalAttributes).then_some(Kind::String)
            }
            _ => None,
        },
        Expr::Struct(_) | Expr::Unspecified => None,
    }
}

/// The types of what a list holds, where they can be seen.
pub(super) fn kinds_of_elements(list: &IdedExpr, table: &Table) -> Vec<Kind> {
    match &list.expr {
        Expr::List(list) => {
            let elements = list.elements.iter();
            elements
                .filter_map(|element| kind(element, table))
                .collect()
        }
        Expr::Ident(name) => {
            let read = slot_of(name).and_then(|slot| table.what(slot));
            let of_texts = matches!(
                read,
                Some(Read::AgentPath | Read::PrincipalRoles | Read::PrincipalAttributes)
            );
            of_texts.then_some(Kind::String).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

fn kind_of_fact(read: &Read) -> Option<Kind> {
    match read {
        // What the arguments hold is seen only when there are some.
        Read::Argument(keys) if !keys.is_empty() => None,
        Read::HasArgument(_) | Read::HasToolOrigin | Read::HasPrincipal => Some(Kind::Bool),
        Read::Argument(_) | Read::PrincipalAttributes => Some(Kind::Map),
        Read::AgentPath | Read::PrincipalRoles => Some(Kind::List),
        Read::Now => Some(Kind::Timestamp),
        Read::ToolId
        | Read::ToolTitle
        | Read::ToolClass
        | Read::ToolOrigin
        | Read::ToolServer
        | Read::Tenant
        | Read::Session
        | Read::Run
        | Read::PrincipalId => Some(Kind::String),
    }
}

fn kind_of_call(call: &CallExpr, table: &Table) -> Option<Kind> {
    match (call.func_name.as_str(), call.args.as_slice()) {
        (operators::CONDITIONAL, [_, yes, no]) => {
            let yes = kind(yes, table)?;
            (kind(no, table)? == yes).then_some(yes)
        }
        (
            operators::LOGICAL_AND
            | operators::LOGICAL_OR
            | operators::LOGICAL_NOT
            | operators::LESS
            | operators::LESS_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS
            | operators::EQUALS
            | operators::NOT_EQUALS
            | EQUALS
            | DIFFERS
            | LESS
            | LESS_EQUALS
            | GREATER
            | GREATER_EQUALS
            | IN
            | MATCHES
            | "bool"
            | "contains"
            | "startsWith"
            | "endsWith",
            _,
        ) => Some(Kind::Bool),
        (operators::MULTIPLY | operators::DIVIDE | operators::MODULO, _) => Some(Kind::Number),
        ("size" | "int" | "uint" | "double", _) => Some(Kind::Number),
        ("string", _) => Some(Kind::String),
        ("bytes", _) => Some(Kind::Bytes),
        ("type", _) => Some(Kind::Type),
        ("timestamp", _) => Some(Kind::Timestamp),
        ("duration", _) => Some(Kind::Duration),
        (name, _) if name.starts_with("get") => Some(Kind::Number),
        _ => None,
    }
}
