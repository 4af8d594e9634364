//! What can be seen of the type of an expression before it runs.

use cel::common::ast::{Expr, IdedExpr, LiteralValue, operators};

use super::facts::Read;
use super::slots::{ADD, Table, slot_of};

/// What an expression is, where it can be seen that it is never true or false.
pub(super) fn never_boolean(expression: &IdedExpr, table: &Table) -> Option<&'static str> {
    match &expression.expr {
        Expr::Literal(LiteralValue::Boolean(_)) => None,
        Expr::Literal(LiteralValue::String(_)) => Some("a string"),
        Expr::Literal(LiteralValue::Bytes(_)) => Some("bytes"),
        Expr::Literal(LiteralValue::Null) => Some("null"),
        Expr::Literal(LiteralValue::Double(_) | LiteralValue::Int(_) | LiteralValue::UInt(_)) => {
            Some("a number")
        }
        Expr::List(_) => Some("a list"),
        Expr::Map(_) => Some("a map"),
        Expr::Ident(name) => {
            match table.what(slot_of(name)?)? {
                // What the arguments hold is seen only when there are some.
                Read::Argument(keys) if !keys.is_empty() => None,
                Read::HasArgument(_) | Read::HasToolOrigin | Read::HasPrincipal => None,
                Read::Argument(_) | Read::PrincipalAttributes => Some("a map"),
                Read::AgentPath | Read::PrincipalRoles => Some("a list"),
                Read::Now => Some("a timestamp"),
                Read::ToolId
                | Read::ToolTitle
                | Read::ToolClass
                | Read::ToolOrigin
                | Read::ToolServer
                | Read::Tenant
                | Read::Session
                | Read::Run
                | Read::PrincipalId => Some("a string"),
            }
        }
        Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR, [left, right]) => {
                never_boolean(left, table).or_else(|| never_boolean(right, table))
            }
            (operators::LOGICAL_NOT, [operand]) => never_boolean(operand, table),
            (operators::CONDITIONAL, [_, yes, no]) => {
                never_boolean(yes, table).or_else(|| never_boolean(no, table))
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
            ) => Some("the result of arithmetic"),
            ("size" | "int" | "uint" | "double", _) => Some("a number"),
            ("string", _) => Some("a string"),
            ("type", _) => Some("a type"),
            ("timestamp" | "duration", _) => Some("a time"),
            (name, _) if name.starts_with("get") => Some("a number"),
            _ => None,
        },
        Expr::Comprehension(comprehension) => {
            matches!(comprehension.accu_init.expr, Expr::List(_)).then_some("a list")
        }
        Expr::Select(_) | Expr::Struct(_) | Expr::Unspecified => None,
    }
}
