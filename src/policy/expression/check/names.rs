//! Variables and their fields: which there are, and the slots that stand for what is read of them.

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators};

use super::{Checker, Problem};
use crate::policy::error::{listed, suggestion};
use crate::policy::expression::facts::Read;
use crate::policy::expression::habits::instead_of;
use crate::policy::expression::library::{PRINCIPAL, SCOPE, TOOL, TYPES, VARIABLES};

impl Checker<'_> {
    fn slot(&mut self, read: &Read) -> Expr {
        let slot = self.table.read(read);
        if !self.reads.contains(&slot) {
            self.reads.push(slot);
        }
        self.reads_args |= matches!(read, Read::Argument(_) | Read::HasArgument(_));
        Expr::Ident(format!("@{slot}"))
    }

    /// A variable, or a name that a comprehension has bound.
    pub(super) fn ident(&mut self, id: u64, name: String) -> Result<Expr, Problem> {
        if name.starts_with('@') || self.is_bound(&name) || TYPES.contains(&name.as_str()) {
            return Ok(Expr::Ident(name));
        }
        let whole = |fields: &[(&str, Read)]| {
            let fields: Vec<String> = fields
                .iter()
                .map(|(field, _)| format!("{name}.{field}"))
                .collect();
            let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
            format!("`{name}` is read by its fields: write {}", listed(&fields))
        };
        match name.as_str() {
            "args" => Ok(self.slot(&Read::Argument(Vec::new()))),
            "now" => Ok(self.slot(&Read::Now)),
            "tool" => Err(self.problem(id, whole(&TOOL))),
            "scope" => Err(self.problem(id, whole(&SCOPE))),
            "principal" => Err(self.problem(id, whole(&PRINCIPAL))),
            _ => Err(self.problem(
                id,
                format!(
                    "`{name}` is no variable, a condition knows {}{}{}",
                    listed(&VARIABLES),
                    suggestion(&name, &VARIABLES),
                    instead_of(&name)
                ),
            )),
        }
    }

    /// `a.b`, `a["b"]`, `has(a.b)`.
    pub(super) fn select(&mut self, id: u64, expr: Expr, level: usize) -> Result<Expr, Problem> {
        if let Some((root, keys)) = path(&expr)
            && !self.is_bound(root)
        {
            let test = matches!(&expr, Expr::Select(select) if select.test);
            match root {
                "args" => {
                    let keys = keys.into_iter().map(str::to_owned).collect();
                    return Ok(self.slot(&if test {
                        Read::HasArgument(keys)
                    } else {
                        Read::Argument(keys)
                    }));
                }
                "tool" => return self.field(id, root, &keys, test, &TOOL),
                "scope" => return self.field(id, root, &keys, test, &SCOPE),
                "principal" => return self.field(id, root, &keys, test, &PRINCIPAL),
                _ => {}
            }
        }
        match expr {
            Expr::Select(SelectExpr {
                operand,
                field,
                test,
            }) => Ok(Expr::Select(SelectExpr {
                operand: Box::new(self.walk(*operand, level + 1)?),
                field,
                test,
            })),
            Expr::Call(CallExpr {
                func_name,
                target,
                args,
            }) => Ok(Expr::Call(CallExpr {
                func_name,
                target,
                args: self.walk_all(args, level)?,
            })),
            other => Ok(other),
        }
    }

    /// A field of `tool`, `scope` or `principal`.
    fn field(
        &mut self,
        id: u64,
        root: &str,
        keys: &[&str],
        test: bool,
        fields: &[(&str, Read)],
    ) -> Result<Expr, Problem> {
        let (Some(name), rest) = (keys.first(), keys.get(1..).unwrap_or_default()) else {
            return Err(self.problem(id, format!("`{root}` is read by its fields")));
        };
        let Some((_, read)) = fields.iter().find(|(field, _)| field == name) else {
            let names: Vec<&str> = fields.iter().map(|(field, _)| *field).collect();
            return Err(self.problem(
                id,
                format!(
                    "`{root}` has no field `{name}`, its fields are {}{}",
                    listed(&names),
                    suggestion(name, &names)
                ),
            ));
        };
        if let [next, ..] = rest
            && *read != Read::PrincipalAttributes
        {
            return Err(self.problem(
                id,
                format!("`{root}.{name}` has no field `{next}`: it has no fields"),
            ));
        }
        if rest.is_empty() && test {
            return Ok(match read {
                Read::ToolOrigin => self.slot(&Read::HasToolOrigin),
                Read::PrincipalId | Read::PrincipalRoles | Read::PrincipalAttributes => {
                    self.slot(&Read::HasPrincipal)
                }
                Read::ToolId
                | Read::ToolTitle
                | Read::ToolClass
                | Read::ToolServer
                | Read::Tenant
                | Read::Session
                | Read::Run
                | Read::AgentPath
                | Read::Now => Expr::Literal(LiteralValue::Boolean(true.into())),
                // Tested already, or not by field.
                Read::Argument(_)
                | Read::HasArgument(_)
                | Read::HasToolOrigin
                | Read::HasPrincipal => self.slot(read),
            });
        }
        let mut expr = self.slot(read);
        for (index, key) in rest.iter().enumerate() {
            expr = Expr::Select(SelectExpr {
                operand: Box::new(IdedExpr { id, expr }),
                field: (*key).to_owned(),
                test: test && index + 1 == rest.len(),
            });
        }
        Ok(expr)
    }
}

/// The variable and the keys of `a.b["c"]`.
fn path(expr: &Expr) -> Option<(&str, Vec<&str>)> {
    let mut keys = Vec::new();
    let mut expr = expr;
    loop {
        let (operand, key) = match expr {
            Expr::Ident(root) => {
                keys.reverse();
                return Some((root, keys));
            }
            // Within a path, `has(a.b)` is a boolean and has no keys.
            Expr::Select(select) if !select.test || keys.is_empty() => {
                (&select.operand, select.field.as_str())
            }
            Expr::Call(call) if call.func_name == operators::INDEX && call.target.is_none() => {
                let [operand, index] = call.args.as_slice() else {
                    return None;
                };
                let Expr::Literal(LiteralValue::String(key)) = &index.expr else {
                    return None;
                };
                keys.push(key.inner());
                expr = &operand.expr;
                continue;
            }
            _ => return None,
        };
        keys.push(key);
        expr = &operand.expr;
    }
}
