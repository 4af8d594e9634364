//! What a parsed condition may say: names, functions, fields and sizes; and its rewriting into slots.
//!
//! The interpreter looks names up when it runs. Here they are looked up when the policy is loaded, so that a typo stops
//! the load and does not deny calls one by one. `names` looks up variables and their fields, `operands` what operators
//! and `matches` are given; the walk itself is here.

mod names;
mod operands;

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, MapExpr, SourceInfo,
    operators,
};

use super::Condition;
use super::budget::Known;
use super::kinds::never_boolean;
use super::library::{TYPES, VARIABLES, signature};
use super::slots::{RANGE, Table};

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
        if let Some(target) = &target {
            self.method(id, &func_name, target)?;
        }
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
}
