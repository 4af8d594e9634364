//! Conditions (`when`): CEL, and the only place that knows it (S4).
//!
//! A condition is compiled once. The parser knows no names, so `check` walks what it gives with the scopes of CEL,
//! refuses whatever could only fail, and turns every read of a fact (`args.cents`, `principal.roles`) into a slot of a
//! table that all conditions of a policy share. An evaluation fills the slots that a condition reads, and no others;
//! a slot whose fact is absent stays empty, so that reading it fails there and nowhere else, and `&&` and `||` absorb it
//! as CEL has it. Before it runs, `budget` bounds what it may cost. The result is true, false or failed.

mod brackets;
mod budget;
mod check;
mod explain;
mod facts;
mod habits;
mod kinds;
mod library;
mod operators;
mod pattern;
mod slots;
mod values;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};
use std::thread;

use cel::common::ast::IdedExpr;
use cel::common::functions::Function;
use cel::common::types::DYN_TYPE;
use cel::common::value::CowVal;
use cel::context::VariableResolver;
use cel::{Context, Env, Value};

pub(super) use self::facts::Input;

use self::budget::Known;
use self::facts::{Facts, Read};
use self::pattern::Pattern;
use self::slots::Table;
use self::values::Size;
use super::document::Text;
use super::error::{PolicyError, quoted};

/// The most bytes a condition may have.
const MAX_BYTES: usize = 4 * 1024;
/// Why a condition past its budget fails.
const TOO_LONG: &str = "it would take too long with these arguments";
/// The parser recurses some frames per level, and debug builds have large ones.
const PARSER_STACK_BYTES: usize = 64 * 1024 * 1024;

/// What the conditions of one policy share.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    reads: Vec<Read>,
    patterns: Vec<Pattern>,
}

/// One compiled condition.
#[derive(Debug)]
pub(super) struct Condition {
    expression: IdedExpr,
    /// The slots it reads, each once.
    reads: Vec<u32>,
    reads_args: bool,
    cost: Known,
}

/// What a condition says. Failed is never false.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Truth {
    /// It holds.
    True,
    /// It does not.
    False,
    /// It cannot be evaluated, for this reason, which holds no value of the call.
    Failed(String),
}

/// What one decision knows: conditions that read the same facts share them.
pub(super) struct Evaluation<'a> {
    conditions: &'a Conditions,
    facts: Facts<'a>,
    /// What the conditions have cost so far, at most.
    spent: u64,
    /// Those of which no more is known than a bound, and the bound.
    unmeasured: Vec<(&'a Condition, u64)>,
}

/// Compiles the conditions of all rules, in their order.
///
/// # Errors
/// The first condition that is refused, with its place.
pub(super) fn compile(
    texts: &[Option<&Text<'_>>],
) -> Result<(Conditions, Vec<Option<Condition>>), PolicyError> {
    let Some(first) = texts.iter().flatten().next() else {
        return Ok((Conditions::default(), texts.iter().map(|_| None).collect()));
    };
    let failed = || {
        first
            .place()
            .error("`when`: the conditions could not be compiled: the expression parser failed")
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .stack_size(PARSER_STACK_BYTES)
            .spawn_scoped(scope, || compile_all(texts));
        match thread.map(thread::ScopedJoinHandle::join) {
            Ok(Ok(result)) => result,
            Ok(Err(_)) | Err(_) => Err(failed()),
        }
    })
}

fn compile_all(
    texts: &[Option<&Text<'_>>],
) -> Result<(Conditions, Vec<Option<Condition>>), PolicyError> {
    let mut table = Table::default();
    let mut conditions = Vec::with_capacity(texts.len());
    for text in texts {
        conditions.push(text.map(|text| compile_one(text, &mut table)).transpose()?);
    }
    Ok((table.finish(), conditions))
}

fn compile_one(text: &Text<'_>, table: &mut Table) -> Result<Condition, PolicyError> {
    let source = text.value.as_str();
    if source.len() > MAX_BYTES {
        return Err(text.place().error(format!(
            "`when` has {} bytes, at most {MAX_BYTES} are allowed",
            source.len()
        )));
    }
    let refused = |problem: check::Problem| {
        text.place_of_char(problem.offset).error(format!(
            "`when`: {}: in {}",
            problem.message,
            quoted(source)
        ))
    };
    brackets::check(source, text.is_folded()).map_err(refused)?;
    let parse = AssertUnwindSafe(|| ENV.parser().parse_with_source_info(source));
    let (expression, info) = match catch_unwind(parse) {
        Ok(Ok(parsed)) => parsed,
        Ok(Err(errors)) => return Err(refused(explain::syntax(source, &errors))),
        Err(_) => {
            return Err(text
                .place()
                .error(format!("`when`: {} is no CEL expression", quoted(source))));
        }
    };
    check::condition(expression, &info, table).map_err(refused)
}

impl<'a> Evaluation<'a> {
    /// An evaluation of conditions of that policy for one call.
    pub(super) fn new(conditions: &'a Conditions, input: Input<'a>) -> Self {
        Self {
            conditions,
            facts: Facts::new(input),
            spent: 0,
            unmeasured: Vec::new(),
        }
    }

    /// What a condition says of the call.
    pub(super) fn truth(&mut self, condition: &'a Condition) -> Truth {
        if condition.reads_args && !self.facts.arguments_are_exact() {
            return Truth::Failed(
                "`args` holds a number that no condition can hold exactly".to_owned(),
            );
        }
        let mut weight: u64 = 0;
        for slot in &condition.reads {
            self.facts.fill(*slot, &self.conditions.reads);
            weight = weight.saturating_add(self.facts.size(*slot).map_or(0, Size::weight));
            // Converting is work too, and `args`, `args.a` and `args.a.b` are converted one by one.
            if weight > budget::LIMIT {
                return Truth::Failed(TOO_LONG.to_owned());
            }
        }
        if !self.spend(condition, weight) {
            return Truth::Failed(TOO_LONG.to_owned());
        }
        let slots = Slots {
            facts: &self.facts,
            patterns: &self.conditions.patterns,
        };
        let mut context = Context::with_env(Arc::clone(&ENV));
        context.set_variable_resolver(&slots);
        // A panic in the interpreter must not take the caller's task with it, and must not become an answer. The owned
        // result keeps the recursion in the interpreter's own, optimised code, whose frames are small.
        let run = AssertUnwindSafe(|| Value::resolve(&condition.expression, &context));
        match catch_unwind(run) {
            Ok(Ok(Value::Bool(true))) => Truth::True,
            Ok(Ok(Value::Bool(false))) => Truth::False,
            Ok(Ok(other)) => {
                let kind = other.type_of().to_string();
                Truth::Failed(format!(
                    "it gives a value of type {}, and not true or false",
                    explain::type_name(&kind)
                ))
            }
            Ok(Err(error)) => Truth::Failed(explain::failure(
                &error,
                &self.facts,
                &self.conditions.reads,
            )),
            Err(_) => Truth::Failed("the expression failed".to_owned()),
        }
    }

    /// Whether a condition whose facts weigh so much is within its budget, and with it the decision. The cost is
    /// measured only where what was known at the load does not show it.
    fn spend(&mut self, condition: &'a Condition, weight: u64) -> bool {
        let known = condition.cost.within_limit(weight);
        let cost = known.unwrap_or_else(|| self.measure(condition));
        if cost > budget::LIMIT {
            return false;
        }
        self.spent = self.spent.saturating_add(cost);
        if known.is_some() {
            self.unmeasured.push((condition, cost));
        }
        if self.spent > budget::DECISION_LIMIT {
            for (condition, known) in std::mem::take(&mut self.unmeasured) {
                let cost = self.measure(condition);
                self.spent = self.spent.saturating_sub(known).saturating_add(cost);
            }
        }
        self.spent <= budget::DECISION_LIMIT
    }

    fn measure(&self, condition: &Condition) -> u64 {
        let patterns = &self.conditions.patterns;
        budget::cost(&condition.expression, &self.facts, patterns)
    }
}

/// What the names that `check` left in an expression stand for.
struct Slots<'e, 'a> {
    facts: &'e Facts<'a>,
    patterns: &'e [Pattern],
}

impl VariableResolver for Slots<'_, '_> {
    fn resolve<'b>(&'b self, name: &str) -> Option<CowVal<'b, 'b>> {
        if let Some(slot) = slots::slot_of(name) {
            return self.facts.value(slot).map(CowVal::Borrowed);
        }
        let pattern = self.patterns.get(slots::pattern_of(name)?)?;
        Some(CowVal::Borrowed(pattern))
    }
}

/// CEL's standard library, and what `check` puts in the place of what CEL leaves open or does at a price.
///
/// Without optional values (`a.?b`): they turn every failure into a value, and failed is never false.
static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib().with_optional_support(false);
    // Declaring a name once cannot fail; were one missing, each condition that uses it would fail, and so deny.
    for (name, function) in [
        (slots::ADD, operators::add as Function),
        (slots::EQUALS, operators::equals),
        (slots::DIFFERS, operators::differs),
        (slots::LESS, operators::less),
        (slots::LESS_EQUALS, operators::less_equals),
        (slots::GREATER, operators::greater),
        (slots::GREATER_EQUALS, operators::greater_equals),
        (slots::IN, operators::is_in),
        (slots::MATCHES, pattern::matches),
    ] {
        let _ = env.add_overload(name, name, vec![DYN_TYPE, DYN_TYPE], function);
    }
    let _ = env.add_overload(slots::RANGE, slots::RANGE, vec![DYN_TYPE], operators::range);
    Arc::new(env)
});

#[cfg(test)]
mod tests;
