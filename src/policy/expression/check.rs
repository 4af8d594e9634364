//! What a parsed condition may say: names, functions, fields and sizes; and its rewriting into slots.
//!
//! The interpreter looks names up when it runs. Here they are looked up when the policy is loaded, so that a typo stops
//! the load and does not deny calls one by one.

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr,
    SelectExpr, SourceInfo, operators,
};

use super::Condition;
use super::budget::Known;
use super::explain;
use super::facts::Read;
use super::kinds::{Kind, kind, kinds_of_elements, never_boolean};
use super::library::{PRINCIPAL, SCOPE, TOOL, TYPES, VARIABLES, signature};
use super::slots::{ADD, DIFFERS, EQUALS, IN, MATCHES, RANGE, Table};
use crate::policy::error::{listed, suggestion};

/// The most levels an expression may have.
pub(super) const MAX_LEVELS: usize = 32;
/// The most comprehensions that may stand inside each other.
const MAX_NESTED: usize = 2;

/// What is wrong with a condition, and where in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// In characters from its start.
    pub(super) offset: usize,
    pub(super) message: String,
}

/// What is said of an expression that has too many levels.
pub(super) fn too_deep(offset: usize) -> Problem {
    Problem {
        offset,
        message: format!(
            "it has more than {MAX_LEVELS} levels: use fewer parentheses, or split it into several rules"
        ),
    }
}

/// Checks a parsed condition and puts slots for what it reads.
pub(super) fn condition(
    expression: IdedExpr,
    info: &SourceInfo,
    table: &mut Table,
) -> Result<Condition, Problem> {
    let mut checker = Checker {
        info,
        table,
        scopes: Vec::new(),
        nested: 0,
        reads: Vec::new(),
        reads_args: false,
    };
    let id = expression.id;
    let expression = checker.walk(expression, 1)?;
    if let Some(kind) = never_boolean(&expression, checker.table) {
        return Err(checker.problem(
            id,
            format!("a condition must be true or false, and this is {kind}"),
        ));
    }
    let Checker {
        reads, reads_args, ..
    } = checker;
    let cost = Known::of(&expression, table.patterns());
    Ok(Condition {
        expression,
        reads,
        reads_args,
        cost,
    })
}

struct Checker<'c> {
    info: &'c SourceInfo,
    table: &'c mut Table,
    /// The variables of the comprehensions around, outermost first.
    scopes: Vec<String>,
    nested: usize,
    reads: Vec<u32>,
    reads_args: bool,
}

impl Checker<'_> {
    fn problem(&self, id: u64, message: impl Into<String>) -> Problem {
        Problem {
            offset: self.offset(id),
            message: message.into(),
        }
    }

    fn offset(&self, id: u64) -> usize {
        // The parser counts bytes.
        let start = self
            .info
            .offset_for(id)
            .and_then(|(start, _)| usize::try_from(start).ok());
        let before = start
            .and_then(|start| self.info.source.get(..start))
            .unwrap_or_default();
        before.chars().count()
    }

    fn walk(&mut self, expression: IdedExpr, level: usize) -> Result<IdedExpr, Problem> {
        let IdedExpr { id, expr } = expression;
        if level > MAX_LEVELS {
            return Err(too_deep(self.offset(id)));
        }
        let expr = match expr {
            Expr::Literal(_) => expr,
            Expr::Ident(name) => self.ident(id, name)?,
            Expr::Select(_) => self.select(id, expr, level)?,
            Expr::Call(call) => self.call(id, call, level)?,
            Expr::List(ListExpr {
                elements,
                optional_indices,
            }) => Expr::List(ListExpr {
                elements: self.walk_all(elements, level)?,
                optional_indices,
            }),
            Expr::Map(map) => Expr::Map(self.map(map, level)?),
            Expr::Comprehension(comprehension) => self.comprehension(id, *comprehension, level)?,
            Expr::Struct(message) => {
                return Err(self.problem(
                    id,
                    format!(
                        "`{}{{…}}` makes a message, and conditions know none: write a map",
                        message.type_name
                    ),
                ));
            }
            Expr::Unspecified => return Err(self.problem(id, "this is no CEL expression")),
        };
        Ok(IdedExpr { id, expr })
    }

    fn walk_all(
        &mut self,
        expressions: Vec<IdedExpr>,
        level: usize,
    ) -> Result<Vec<IdedExpr>, Problem> {
        expressions
            .into_iter()
            .map(|expression| self.walk(expression, level + 1))
            .collect()
    }

    fn is_bound(&self, name: &str) -> bool {
        self.scopes.iter().any(|bound| bound == name)
    }

    fn slot(&mut self, read: &Read) -> Expr {
        let slot = self.table.read(read);
        if !self.reads.contains(&slot) {
            self.reads.push(slot);
        }
        self.reads_args |= matches!(read, Read::Argument(_) | Read::HasArgument(_));
        Expr::Ident(format!("@{slot}"))
    }

    fn ident(&mut self, id: u64, name: String) -> Result<Expr, Problem> {
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
                    "`{name}` is no variable, a condition knows {}{}",
                    listed(&VARIABLES),
                    suggestion(&name, &VARIABLES)
                ),
            )),
        }
    }

    /// `a.b`, `a["b"]`, `has(a.b)`.
    fn select(&mut self, id: u64, expr: Expr, level: usize) -> Result<Expr, Problem> {
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

    fn map(&mut self, map: MapExpr, level: usize) -> Result<MapExpr, Problem> {
        let mut entries = Vec::with_capacity(map.entries.len());
        for mut entry in map.entries {
            match entry.expr {
                EntryExpr::MapEntry(mut pair) => {
                    pair.key = self.walk(pair.key, level + 1)?;
                    pair.value = self.walk(pair.value, level + 1)?;
                    entry.expr = EntryExpr::MapEntry(pair);
                    entries.push(entry);
                }
                EntryExpr::StructField(_) => {
                    return Err(self.problem(entry.id, "this is no CEL expression"));
                }
            }
        }
        Ok(MapExpr { entries })
    }

    fn comprehension(
        &mut self,
        id: u64,
        comprehension: ComprehensionExpr,
        level: usize,
    ) -> Result<Expr, Problem> {
        let ComprehensionExpr {
            iter_range,
            iter_var,
            iter_var2,
            accu_var,
            accu_init,
            loop_cond,
            loop_step,
            result,
        } = comprehension;
        if VARIABLES.contains(&iter_var.as_str()) || TYPES.contains(&iter_var.as_str()) {
            return Err(self.problem(
                id,
                format!("`{iter_var}` has a meaning already: give the variable another name"),
            ));
        }
        let range_id = iter_range.id;
        let range = self.walk(iter_range, level + 1)?;
        let accu_init = self.walk(accu_init, level + 1)?;
        if self.nested == MAX_NESTED {
            return Err(self.problem(
                id,
                format!("more than {MAX_NESTED} of `all`, `exists`, `map` and `filter` stand inside each other"),
            ));
        }
        self.nested += 1;
        self.scopes.push(iter_var.clone());
        let loop_cond = self.walk(loop_cond, level + 1)?;
        let loop_step = self.walk(loop_step, level + 1)?;
        self.scopes.pop();
        self.nested -= 1;
        let result = self.walk(result, level + 1)?;
        let range = IdedExpr {
            id: range_id,
            expr: Expr::Call(CallExpr {
                func_name: RANGE.to_owned(),
                target: None,
                args: vec![range],
            }),
        };
        Ok(Expr::Comprehension(Box::new(ComprehensionExpr {
            iter_range: range,
            iter_var,
            iter_var2,
            accu_var,
            accu_init,
            loop_cond,
            loop_step,
            result,
        })))
    }

    fn call(&mut self, id: u64, call: CallExpr, level: usize) -> Result<Expr, Problem> {
        let CallExpr {
            func_name,
            target,
            args,
        } = call;
        if func_name == operators::INDEX && target.is_none() {
            return self.select(
                id,
                Expr::Call(CallExpr {
                    func_name,
                    target,
                    args,
                }),
                level,
            );
        }
        // The names of operators hold a character that no name of a function can.
        let is_operator =
            func_name.contains(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.');
        if !is_operator {
            signature(&func_name, target.is_some(), args.len())
                .map_err(|message| self.problem(id, message))?;
        }
        let target = match target {
            Some(target) => Some(Box::new(self.walk(*target, level + 1)?)),
            None => None,
        };
        let mut args = self.walk_all(args, level)?;
        if func_name == "matches" {
            return self.matches(id, target, args);
        }
        let func_name = match args.as_mut_slice() {
            [left, right] => self.operator(id, func_name, left, right)?,
            _ => func_name,
        };
        Ok(Expr::Call(CallExpr {
            func_name,
            target,
            args,
        }))
    }

    /// The operator that stands for one with these operands (see `operators`). Operands that it could only fail with are
    /// refused.
    fn operator(
        &self,
        id: u64,
        name: String,
        left: &mut IdedExpr,
        right: &mut IdedExpr,
    ) -> Result<String, Problem> {
        let kinds = [&*left, &*right].map(|operand| kind(operand, self.table));
        let strict = match name.as_str() {
            operators::ADD if adds_as_it_is(left, right) => return Ok(name),
            operators::ADD => ADD,
            operators::EQUALS | operators::NOT_EQUALS => {
                // With what can be seen to be alike, or to be null, the interpreter's own does the same.
                if kinds.contains(&Some(Kind::Null)) {
                    return Ok(name);
                }
                self.alike(id, &name, &kinds)?;
                match kinds {
                    [Some(Kind::String | Kind::Bool | Kind::Type), Some(_)] => return Ok(name),
                    _ if name == operators::EQUALS => EQUALS,
                    _ => DIFFERS,
                }
            }
            operators::IN => {
                let [of_value, of_container] = kinds;
                match of_container {
                    Some(Kind::List | Kind::Map) | None => {}
                    Some(other) => {
                        let message = format!(
                            "`in` looks in a list or a map, and here in {}",
                            other.name()
                        );
                        return Err(self.problem(id, message));
                    }
                }
                let mut compared: Vec<Option<Kind>> = kinds_of_elements(right, self.table)
                    .into_iter()
                    .map(Some)
                    .chain([of_value])
                    .collect();
                compared.retain(|kind| *kind != Some(Kind::Null));
                self.alike(id, &name, &compared)?;
                IN
            }
            operators::LESS
            | operators::LESS_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS => {
                self.alike(id, &name, &kinds)?;
                exact(left);
                exact(right);
                return Ok(name);
            }
            _ => return Ok(name),
        };
        Ok(strict.to_owned())
    }

    /// Refuses to compare what can be seen to be of different types.
    fn alike(&self, id: u64, operator: &str, kinds: &[Option<Kind>]) -> Result<(), Problem> {
        let mut kinds = kinds.iter().flatten();
        let Some(first) = kinds.next() else {
            return Ok(());
        };
        let Some(other) = kinds.find(|kind| *kind != first) else {
            return Ok(());
        };
        Err(self.problem(
            id,
            format!(
                "{} compares {} with {}, which always fails: convert one of them, as in `int(args.key)` or \
                 `string(args.key)`",
                explain::operator_name(operator),
                first.name(),
                other.name()
            ),
        ))
    }

    /// `text.matches('…')`, whose pattern is compiled now: a call could bring one that takes for ever.
    fn matches(
        &mut self,
        id: u64,
        target: Option<Box<IdedExpr>>,
        args: Vec<IdedExpr>,
    ) -> Result<Expr, Problem> {
        let mut operands: Vec<IdedExpr> = target
            .into_iter()
            .map(|target| *target)
            .chain(args)
            .collect();
        let pattern = operands.pop().unwrap_or_default();
        let Expr::Literal(LiteralValue::String(text)) = &pattern.expr else {
            return Err(self.problem(
                id,
                "the pattern of `matches` must be written out, as in `matches('^a+$')`",
            ));
        };
        let index = self.table.pattern(text.inner()).map_err(|error| {
            self.problem(
                pattern.id,
                format!("the pattern of `matches` is refused: {error}"),
            )
        })?;
        operands.push(IdedExpr {
            id: pattern.id,
            expr: Expr::Ident(format!("@re{index}")),
        });
        Ok(Expr::Call(CallExpr {
            func_name: MATCHES.to_owned(),
            target: None,
            args: operands,
        }))
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

/// In a comparison, `5.0` as `5`: the interpreter rounds an integer to a double to compare the two, and integers are exact.
fn exact(operand: &mut IdedExpr) {
    if let Expr::Literal(LiteralValue::Double(double)) = &operand.expr {
        let value = *double.inner();
        // Its digits are those of the integer itself, however large.
        if value.fract() == 0.0 {
            let digits = format!("{value:.0}");
            if let Ok(int) = digits.parse::<i64>() {
                operand.expr = Expr::Literal(LiteralValue::Int(int.into()));
            } else if let Ok(uint) = digits.parse::<u64>() {
                operand.expr = Expr::Literal(LiteralValue::UInt(uint.into()));
            }
        }
    }
}

/// Whether the interpreter's own `+` does no more than CEL's: one operand shows which of the sums it is.
fn adds_as_it_is(left: &IdedExpr, right: &IdedExpr) -> bool {
    let literal = |operand: &IdedExpr| matches!(operand.expr, Expr::Literal(_));
    literal(left) || literal(right) || matches!(right.expr, Expr::List(_))
}
