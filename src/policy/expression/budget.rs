//! What an expression may cost with the values it is about to read, found before it runs (S4).
//!
//! An upper bound, walked over the expression without its values: each node costs a fixed amount; one that may be linear
//! in its operands costs their weight too; and what stands in a comprehension is counted once for each element that the
//! largest list or map there could have. The unit is about a nanosecond of a release build, rounded up.
//!
//! The walk takes longer than most evaluations do, so it is made when the policy is loaded too, with facts that could be
//! anything up to some weights. A call whose facts weigh no more is known to be within the budget without it.

use std::borrow::Cow;

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators,
};

use super::facts::Facts;
use super::pattern::Pattern;
use super::slots;
use super::values::{Level, SCALAR_WEIGHT, Size};

/// The most an evaluation may cost. A test holds the worst that is accepted under 50 ms.
pub(super) const LIMIT: u64 = 10_000_000;

/// The most that all conditions of one decision may cost together, so that many rules that are each
/// within [`LIMIT`] do not add up to seconds.
pub(super) const DECISION_LIMIT: u64 = 5 * LIMIT;

/// Evaluating a node: some allocations, of which a failing comparison makes most.
const NODE: u64 = 160;
/// Binding one element of a comprehension.
const STEP: u64 = 200;
/// Copying or comparing one unit of weight on top of having made it.
const LINEAR: u64 = 2;
/// Making an owned copy of one unit of weight, once.
const COPY: u64 = 8;

/// The weights of facts for which the cost is known before any call: those of most calls, and of large ones.
const KNOWN_WEIGHTS: [u64; 3] = [1 << 10, 1 << 14, 1 << 18];

/// What an expression may cost, by what the facts that it reads weigh together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known([u64; KNOWN_WEIGHTS.len()]);

impl Known {
    /// What is known of an expression that could cost anything.
    #[cfg(test)]
    pub(super) const NOTHING: Self = Self([u64::MAX; KNOWN_WEIGHTS.len()]);

    /// Finds what an expression may cost whatever it reads.
    pub(super) fn of(expression: &IdedExpr, patterns: &[Pattern]) -> Self {
        let mut costs = [u64::MAX; KNOWN_WEIGHTS.len()];
        for (cost, weight) in costs.iter_mut().zip(KNOWN_WEIGHTS) {
            *cost = measure(expression, Sizes::UpTo(weight), patterns);
            if *cost > LIMIT {
                break;
            }
        }
        Self(costs)
    }

    /// A bound on what evaluating it costs with facts of that weight, if that shows that it is within [`LIMIT`]. Never
    /// less than [`cost`].
    pub(super) fn within_limit(self, weight: u64) -> Option<u64> {
        let (_, cost) = (KNOWN_WEIGHTS.iter().zip(self.0)).find(|(most, _)| weight <= **most)?;
        (cost <= LIMIT).then_some(cost)
    }
}

/// A bound on what evaluating an expression costs; stops counting past [`LIMIT`].
pub(super) fn cost(expression: &IdedExpr, facts: &Facts<'_>, patterns: &[Pattern]) -> u64 {
    measure(expression, Sizes::Of(facts), patterns)
}

/// How large the facts are.
#[derive(Clone, Copy)]
enum Sizes<'m> {
    Of(&'m Facts<'m>),
    /// Each weighs at most this.
    UpTo(u64),
}

fn measure(expression: &IdedExpr, sizes: Sizes<'_>, patterns: &[Pattern]) -> u64 {
    let mut meter = Meter {
        sizes,
        patterns,
        variables: Vec::new(),
        times: 1,
        cost: 0,
    };
    let result = meter.measure(expression);
    // The interpreter hands out a copy.
    meter.charge(result.weight().saturating_mul(COPY));
    meter.cost
}

/// How large the result of an expression can be.
#[derive(Clone, Debug)]
enum Shape<'m> {
    /// No list and no map, of at most this weight.
    Scalar(u64),
    /// The largest weight and length on each level.
    Levels(Cow<'m, [Level]>),
    /// Anything whose weight and length are at most these, and so is all that it holds.
    Any(Level),
}

impl<'m> Shape<'m> {
    fn weight(&self) -> u64 {
        match self {
            Self::Scalar(weight) => *weight,
            Self::Levels(levels) => levels.first().map_or(0, |level| level.weight),
            Self::Any(level) => level.weight,
        }
    }

    fn len(&self) -> u64 {
        match self {
            Self::Scalar(_) => 0,
            Self::Levels(levels) => levels.first().map_or(0, |level| level.len),
            Self::Any(level) => level.len,
        }
    }

    /// Anything in it.
    fn element(&self) -> Self {
        match self {
            Self::Scalar(weight) => Self::Scalar(*weight),
            Self::Levels(Cow::Borrowed(levels)) => {
                Self::Levels(Cow::Borrowed(levels.get(1..).unwrap_or_default()))
            }
            Self::Levels(Cow::Owned(levels)) => {
                Self::Levels(Cow::Owned(levels.get(1..).unwrap_or_default().to_vec()))
            }
            Self::Any(level) => Self::Any(*level),
        }
    }

    fn levels(&self) -> Cow<'_, [Level]> {
        match self {
            Self::Scalar(weight) => Cow::Owned(vec![Level {
                weight: *weight,
                len: 0,
            }]),
            Self::Levels(levels) => Cow::Borrowed(levels),
            Self::Any(level) => Cow::Owned(vec![*level]),
        }
    }

    /// What is no smaller than any of these, nor than what they hold.
    fn any(shapes: [&Self; 2]) -> Self {
        let levels = shapes.iter().flat_map(|shape| shape.levels().into_owned());
        Self::Any(levels.fold(Level::default(), Level::max))
    }

    /// What can be either.
    fn or(self, other: &Self) -> Self {
        match (self, other) {
            (Self::Scalar(a), Self::Scalar(b)) => Self::Scalar(a.max(*b)),
            (a @ Self::Any(_), b) | (a, b @ Self::Any(_)) => Self::any([&a, b]),
            (a, b) => Self::Levels(Cow::Owned(widest(&a.levels(), &b.levels()))),
        }
    }

    /// What holds so many of these.
    fn times(element: &Self, count: u64) -> Self {
        let whole = Level {
            weight: SCALAR_WEIGHT
                .saturating_mul(2)
                .saturating_add(element.weight().saturating_mul(count)),
            len: count,
        };
        if let Self::Any(level) = element {
            return Self::Any(whole.max(*level));
        }
        let mut levels = vec![whole];
        levels.extend_from_slice(&element.levels());
        Self::Levels(Cow::Owned(levels))
    }

    /// What holds both, as a sum of strings or of lists does.
    fn with(self, other: &Self) -> Self {
        let (weight, len) = (
            self.weight().saturating_add(other.weight()),
            self.len().saturating_add(other.len()),
        );
        match self.or(other) {
            Self::Scalar(_) => Self::Scalar(weight),
            Self::Levels(levels) => {
                let mut levels = levels.into_owned();
                if let Some(first) = levels.first_mut() {
                    *first = Level { weight, len };
                }
                Self::Levels(Cow::Owned(levels))
            }
            Self::Any(level) => Self::Any(level.max(Level { weight, len })),
        }
    }
}

fn widest(a: &[Level], b: &[Level]) -> Vec<Level> {
    let level = |levels: &[Level], index: usize| levels.get(index).copied().unwrap_or_default();
    (0..a.len().max(b.len()))
        .map(|index| level(a, index).max(level(b, index)))
        .collect()
}

struct Meter<'m> {
    sizes: Sizes<'m>,
    patterns: &'m [Pattern],
    variables: Vec<(&'m str, Shape<'m>)>,
    /// How often what is measured now may run.
    times: u64,
    cost: u64,
}

impl<'m> Meter<'m> {
    fn charge(&mut self, units: u64) {
        self.cost = self.cost.saturating_add(units.saturating_mul(self.times));
    }

    fn measure(&mut self, expression: &'m IdedExpr) -> Shape<'m> {
        self.charge(NODE);
        if self.cost > LIMIT {
            return Shape::Scalar(0);
        }
        match &expression.expr {
            Expr::Literal(literal) => {
                Shape::Scalar(SCALAR_WEIGHT.saturating_add(literal_bytes(literal)))
            }
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => {
                let operand = self.measure(&select.operand);
                if select.test {
                    Shape::Scalar(SCALAR_WEIGHT)
                } else {
                    operand.element()
                }
            }
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                let mut sum = Shape::Levels(Cow::Owned(vec![Level {
                    weight: SCALAR_WEIGHT * 2,
                    len: 0,
                }]));
                for element in &list.elements {
                    let element = self.measure(element);
                    self.charge(element.weight().saturating_mul(LINEAR));
                    sum = sum.with(&Shape::times(&element, 1));
                }
                sum
            }
            Expr::Map(map) => {
                let mut sum = Shape::Levels(Cow::Owned(vec![Level {
                    weight: SCALAR_WEIGHT * 4,
                    len: 0,
                }]));
                for entry in &map.entries {
                    let (key, value) = match &entry.expr {
                        EntryExpr::MapEntry(entry) => (&entry.key, &entry.value),
                        EntryExpr::StructField(field) => (&field.value, &field.value),
                    };
                    let key = self.measure(key);
                    let value = self.measure(value);
                    let both = key.weight().saturating_add(value.weight());
                    self.charge(both.saturating_mul(LINEAR).saturating_add(STEP));
                    sum = sum.with(&Shape::times(&value.or(&key), 2));
                }
                sum
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Struct(_) | Expr::Unspecified => Shape::Scalar(SCALAR_WEIGHT),
        }
    }

    fn variable(&mut self, name: &str) -> Shape<'m> {
        if let Some(slot) = slots::slot_of(name) {
            let shape = match self.sizes {
                Sizes::Of(facts) => match facts.size(slot) {
                    Some(Size::Levels(levels)) => Shape::Levels(Cow::Borrowed(levels)),
                    Some(Size::Scalar(weight)) => Shape::Scalar(*weight),
                    None => Shape::Scalar(SCALAR_WEIGHT),
                },
                // No element weighs less than a scalar.
                Sizes::UpTo(weight) => Shape::Any(Level {
                    weight,
                    len: weight / SCALAR_WEIGHT,
                }),
            };
            // Its conversion, though it is made once.
            self.cost = self.cost.saturating_add(shape.weight());
            return shape;
        }
        let bound = self
            .variables
            .iter()
            .rev()
            .find(|(bound, _)| *bound == name);
        bound.map_or(Shape::Scalar(SCALAR_WEIGHT), |(_, shape)| shape.clone())
    }

    fn call(&mut self, call: &'m CallExpr) -> Shape<'m> {
        let mut operands: Vec<Shape<'m>> = Vec::with_capacity(2);
        for operand in call.target.as_deref().into_iter().chain(&call.args) {
            operands.push(self.measure(operand));
        }
        let linear = operands
            .iter()
            .fold(0_u64, |sum, operand| sum.saturating_add(operand.weight()));
        let linear = linear.saturating_mul(LINEAR);
        let scalar = Shape::Scalar(SCALAR_WEIGHT * 4);
        match (call.func_name.as_str(), operands.as_slice()) {
            (
                operators::LOGICAL_AND
                | operators::LOGICAL_OR
                | operators::LOGICAL_NOT
                | operators::NOT_STRICTLY_FALSE,
                _,
            ) => Shape::Scalar(SCALAR_WEIGHT),
            (operators::CONDITIONAL, [_, yes, no]) => yes.clone().or(no),
            (operators::INDEX, [operand, index]) => {
                // An index that is no whole number makes the interpreter copy the list into its error.
                let literal = call
                    .args
                    .get(1)
                    .is_some_and(|index| matches!(index.expr, Expr::Literal(_)));
                self.charge(if literal { index.weight() } else { linear });
                operand.element()
            }
            (operators::ADD | slots::ADD, [left, right]) => {
                self.charge(linear);
                left.clone().with(right)
            }
            (slots::IN, [value, container]) => {
                let each = value
                    .weight()
                    .saturating_mul(container.len().saturating_add(1));
                self.charge(
                    container
                        .weight()
                        .saturating_add(each)
                        .saturating_mul(LINEAR),
                );
                scalar
            }
            (slots::MATCHES, [text, _]) => {
                let pattern = call.args.get(1).and_then(|pattern| match &pattern.expr {
                    Expr::Ident(name) => self.patterns.get(slots::pattern_of(name)?),
                    _ => None,
                });
                let cost_per_byte = pattern.map_or(LIMIT, |pattern| pattern.cost_per_byte);
                self.charge(text.weight().saturating_mul(cost_per_byte));
                scalar
            }
            (slots::RANGE, [range]) => {
                self.charge(linear);
                range.clone()
            }
            ("dyn", [value]) => value.clone(),
            ("string" | "bytes", [value]) => {
                self.charge(linear);
                Shape::Scalar(value.weight().saturating_add(SCALAR_WEIGHT * 4))
            }
            // Comparisons, arithmetic, and functions of the library: all at most linear.
            _ => {
                self.charge(linear);
                scalar
            }
        }
    }

    fn comprehension(&mut self, comprehension: &'m ComprehensionExpr) -> Shape<'m> {
        let range = self.measure(&comprehension.iter_range);
        let start = self.measure(&comprehension.accu_init);
        let element = range.element();
        let appends = matches!(comprehension.accu_init.expr, Expr::List(_));
        let times = self.times;
        self.times = times.saturating_mul(range.len().max(1));
        self.charge(STEP.saturating_add(element.weight().saturating_mul(LINEAR)));
        // The interpreter appends in place, so each step sees the list that it starts with.
        self.variables.push((&comprehension.accu_var, start));
        self.variables.push((&comprehension.iter_var, element));
        self.measure(&comprehension.loop_cond);
        let step = self.measure(&comprehension.loop_step);
        self.charge(step.weight().saturating_mul(LINEAR));
        self.variables.pop();
        self.variables.pop();
        self.times = times;
        let result = if appends {
            Shape::times(&step.element(), range.len())
        } else {
            step
        };
        self.variables.push((&comprehension.accu_var, result));
        let result = self.measure(&comprehension.result);
        self.variables.pop();
        result
    }
}

fn literal_bytes(literal: &LiteralValue) -> u64 {
    let bytes = match literal {
        LiteralValue::String(text) => text.inner().len(),
        LiteralValue::Bytes(bytes) => bytes.inner().len(),
        LiteralValue::Boolean(_)
        | LiteralValue::Double(_)
        | LiteralValue::Int(_)
        | LiteralValue::Null
        | LiteralValue::UInt(_) => 0,
    };
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
