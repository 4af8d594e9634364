//! What operators and `matches` are given: the strict ones put in their place, and what could only fail refused.

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};

use super::{Checker, Problem};
use crate::policy::document::{CLASSES, ORIGINS};
use crate::policy::error::{listed, quoted, suggestion};
use crate::policy::expression::explain;
use crate::policy::expression::facts::Read;
use crate::policy::expression::kinds::{Kind, kind, kinds_of_elements};
use crate::policy::expression::slots::{
    ADD, DIFFERS, EQUALS, GREATER, GREATER_EQUALS, IN, LESS, LESS_EQUALS, MATCHES, slot_of,
};

impl Checker<'_> {
    /// The operator that stands for one with these operands (see `operators`). Operands that it could only fail with are
    /// refused.
    pub(super) fn operator(
        &self,
        id: u64,
        name: String,
        left: &mut IdedExpr,
        right: &mut IdedExpr,
    ) -> Result<String, Problem> {
        let kinds = [&*left, &*right].map(|operand| kind(operand, self.table));
        self.names_what_there_is(&name, left, right)?;
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
                if rounds_nothing(left) || rounds_nothing(right) {
                    return Ok(name);
                }
                match name.as_str() {
                    operators::LESS => LESS,
                    operators::LESS_EQUALS => LESS_EQUALS,
                    operators::GREATER => GREATER,
                    _ => GREATER_EQUALS,
                }
            }
            _ => return Ok(name),
        };
        Ok(strict.to_owned())
    }

    /// Refuses to compare `tool.class` or `tool.origin` with a text that none is ever equal to: a misspelt class would
    /// make a rule that never matches.
    fn names_what_there_is(
        &self,
        operator: &str,
        left: &IdedExpr,
        right: &IdedExpr,
    ) -> Result<(), Problem> {
        let compared: &[_] = match operator {
            operators::EQUALS | operators::NOT_EQUALS => &[(left, right), (right, left)],
            operators::IN => &[(left, right)],
            _ => return Ok(()),
        };
        for &(fact, with) in compared {
            let Expr::Ident(name) = &fact.expr else {
                continue;
            };
            let (field, names) = match slot_of(name).and_then(|slot| self.table.what(slot)) {
                Some(Read::ToolClass) => ("tool.class", CLASSES.map(|(name, _)| name).to_vec()),
                Some(Read::ToolOrigin) => ("tool.origin", ORIGINS.map(|(name, _)| name).to_vec()),
                _ => continue,
            };
            let texts = match &with.expr {
                Expr::List(list) => list.elements.as_slice(),
                _ => std::slice::from_ref(with),
            };
            for text in texts {
                if let Expr::Literal(LiteralValue::String(written)) = &text.expr
                    && !names.contains(&written.inner())
                {
                    let message = format!(
                        "`{field}` is never {}, it is {}{}",
                        quoted(written.inner()),
                        listed(&names),
                        suggestion(written.inner(), &names)
                    );
                    return Err(self.problem(text.id, message));
                }
            }
        }
        Ok(())
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

    /// Refuses to look for a text in what can be seen to be no text.
    pub(super) fn method(&self, id: u64, name: &str, target: &IdedExpr) -> Result<(), Problem> {
        if !matches!(name, "contains" | "startsWith" | "endsWith" | "matches") {
            return Ok(());
        }
        let instead = match kind(target, self.table) {
            Some(Kind::String) | None => return Ok(()),
            Some(Kind::List) => "write `x in list`, or `list.exists(x, …)`",
            Some(_) => "convert it, as in `string(args.key)`",
        };
        let of = kind(target, self.table).map_or("", Kind::name);
        let message = format!("`{name}` looks in a string, and here in {of}: {instead}");
        Err(self.problem(id, message))
    }

    /// `text.matches('…')`, whose pattern is compiled now: a call could bring one that takes for ever.
    pub(super) fn matches(
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

/// Whether comparing anything with this is exact as the interpreter does it, which rounds an integer beside a double:
/// with a text, with a fraction, and with an integer that a double holds.
fn rounds_nothing(operand: &IdedExpr) -> bool {
    const EXACT: u64 = 1 << f64::MANTISSA_DIGITS;
    match &operand.expr {
        Expr::Literal(LiteralValue::Int(int)) => int.inner().unsigned_abs() < EXACT,
        Expr::Literal(LiteralValue::UInt(uint)) => *uint.inner() < EXACT,
        Expr::Literal(LiteralValue::Double(double)) => double.inner().fract() != 0.0,
        Expr::Literal(_) => true,
        _ => false,
    }
}

/// Whether the interpreter's own `+` does no more than CEL's: one operand shows which of the sums it is.
fn adds_as_it_is(left: &IdedExpr, right: &IdedExpr) -> bool {
    let literal = |operand: &IdedExpr| matches!(operand.expr, Expr::Literal(_));
    literal(left) || literal(right) || matches!(right.expr, Expr::List(_))
}
