//! What stands in the place of the interpreter's operators where they are laxer than a rule may be.
//!
//! CEL's `==`, `!=` and `in` are false (or true) of values of different types. Here such a comparison fails: whoever
//! calls chooses the types, and a rule that denies `args.env == 'prod'` must not be left behind by `["prod"]`. Numbers
//! are one type, compared by their exact values (the interpreter rounds an integer beside a double), and `null` may be
//! compared with anything, as `x == null` asks whether there is a value.

use std::cmp::Ordering;

use cel::ExecutionError;
use cel::common::types::{CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelUInt, Kind};
use cel::common::value::{CowVal, Val};

type Operands<'b, 'v> = Vec<CowVal<'b, 'v>>;
type Outcome<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// `+`, but a list takes a list only: the interpreter would add the keys of a map, in any order.
pub(super) fn add<'b, 'v>(operands: Operands<'b, 'v>) -> Outcome<'b, 'v> {
    let [left, right] = operands.as_slice() else {
        return Err(ExecutionError::missing_argument_or_target());
    };
    let mixed = || mismatch("_+_", [left.as_ref(), right.as_ref()].map(type_name));
    if left.downcast_ref::<CelList<'_>>().is_some() && right.downcast_ref::<CelList<'_>>().is_none()
    {
        return Err(mixed());
    }
    let adder = left.as_adder().ok_or_else(mixed)?;
    adder
        .add(right.as_ref())
        .map(|sum| CowVal::Owned(sum.into_owned()))
}

/// What a comprehension goes over: a list as it is; a map's keys in their order, as the interpreter would take them in
/// any, and one call must have one answer.
pub(super) fn range<'b, 'v>(operands: Operands<'b, 'v>) -> Outcome<'b, 'v> {
    let mut operands = operands.into_iter();
    let (Some(range), None) = (operands.next(), operands.next()) else {
        return Err(ExecutionError::missing_argument_or_target());
    };
    if range.downcast_ref::<CelList<'_>>().is_some() {
        return Ok(range);
    }
    let Some(map) = range.downcast_ref::<CelMap<'v>>() else {
        return Err(ExecutionError::no_such_overload(
            "comprehension",
            vec![type_name(range.as_ref())],
        ));
    };
    let mut keys: Vec<CelMapKey<'v>> = map.inner().keys().cloned().collect();
    keys.sort();
    let keys: Vec<Box<dyn Val + 'v>> = keys.into_iter().map(|key| key_value(&key)).collect();
    Ok(CowVal::owned(CelList::from(keys)))
}

/// `==`.
pub(super) fn equals<'b, 'v>(operands: Operands<'b, 'v>) -> Outcome<'b, 'v> {
    compare("_==_", &operands).map(|equal| CowVal::owned(CelBool::from(equal)))
}

/// `!=`.
pub(super) fn differs<'b, 'v>(operands: Operands<'b, 'v>) -> Outcome<'b, 'v> {
    compare("_!=_", &operands).map(|equal| CowVal::owned(CelBool::from(!equal)))
}

fn compare(operator: &str, operands: &Operands<'_, '_>) -> Result<bool, ExecutionError> {
    let [left, right] = operands.as_slice() else {
        return Err(ExecutionError::missing_argument_or_target());
    };
    equal(left.as_ref(), right.as_ref()).map_err(|Mismatch(types)| mismatch(operator, types))
}

/// `<`.
pub(super) fn less<'b, 'v>(operands: Operands<'b, 'v>) -> Outcome<'b, 'v> {
    order("_<_", &operands, Ordering::is_lt)
}

/// `<=`.
pub(super) fn less_equals<'b, 'v>(operands: Operands<'b, 'v>) -> Outcome<'b, 'v> {
    order("_<=_", &operands, Ordering::is_le)
}

/// `>`.
pub(super) fn greater<'b, 'v>(operands: Operands<'b, 'v>) -> Outcome<'b, 'v> {
    order("_>_", &operands, Ordering::is_gt)
}

/// `>=`.
pub(super) fn greater_equals<'b, 'v>(operands: Operands<'b, 'v>) -> Outcome<'b, 'v> {
    order("_>=_", &operands, Ordering::is_ge)
}

fn order<'b, 'v>(
    operator: &str,
    operands: &Operands<'b, 'v>,
    holds: fn(Ordering) -> bool,
) -> Outcome<'b, 'v> {
    let [left, right] = operands.as_slice() else {
        return Err(ExecutionError::missing_argument_or_target());
    };
    let (left, right) = (left.as_ref(), right.as_ref());
    let mixed = || mismatch(operator, [left, right].map(type_name));
    let doubles = [left, right].map(|value| value.downcast_ref::<CelDouble>());
    let ordering = match (integer(left), integer(right), doubles) {
        (Some(integer), _, [_, Some(double)]) => exactly(integer, *double.inner()),
        (_, Some(integer), [Some(double), _]) => {
            exactly(integer, *double.inner()).map(Ordering::reverse)
        }
        _ => {
            let comparer = left.as_comparer().ok_or_else(mixed)?;
            comparer.compare(right).ok()
        }
    };
    let ordering = ordering.ok_or_else(mixed)?;
    Ok(CowVal::owned(CelBool::from(holds(ordering))))
}

/// How an integer is to a double, neither of them rounded; none where the double is no number.
fn exactly(integer: i128, double: f64) -> Option<Ordering> {
    let whole = double.trunc();
    // The digits of a whole double are those of the integer itself, however large.
    match format!("{whole:.0}").parse::<i128>() {
        Ok(whole) => Some(integer.cmp(&whole).then(0.0.partial_cmp(&double.fract())?)),
        Err(_) => 0.0.partial_cmp(&double),
    }
}

/// `in`: of a list what `list.exists(e, e == value)` is; of a map whether it has the key.
pub(super) fn is_in<'b, 'v>(operands: Operands<'b, 'v>) -> Outcome<'b, 'v> {
    let [value, container] = operands.as_slice() else {
        return Err(ExecutionError::missing_argument_or_target());
    };
    let (value, container) = (value.as_ref(), container.as_ref());
    let mixed = || mismatch("@in", [value, container].map(type_name));
    let found = if let Some(list) = container.downcast_ref::<CelList<'_>>() {
        any(list
            .inner()
            .iter()
            .map(|element| equal(value, element.as_ref())))
        .map_err(|Mismatch([value, element])| {
            mismatch("@in", [value, format!("a list with {element}")])
        })?
    } else if let Some(map) = container.downcast_ref::<CelMap<'_>>() {
        let container = map.as_container().ok_or_else(mixed)?;
        let found = container.contains(value).map_err(|_| mixed())?;
        if !found && !map.inner().is_empty() && !key_kinds(map).contains(&kind(value)) {
            return Err(mixed());
        }
        found
    } else {
        return Err(mixed());
    };
    Ok(CowVal::owned(CelBool::from(found)))
}

/// Two values that cannot be compared, by their types.
struct Mismatch([String; 2]);

/// Whether two values are the same. Two lists and two maps are not if anything in them shows it, whatever else in them
/// cannot be compared.
fn equal(left: &dyn Val, right: &dyn Val) -> Result<bool, Mismatch> {
    let (of_left, of_right) = (kind(left), kind(right));
    if of_left == Kind::NullType || of_right == Kind::NullType {
        return Ok(of_left == of_right);
    }
    if of_left != of_right {
        return Err(Mismatch([left, right].map(type_name)));
    }
    if let (Some(left), Some(right)) = (left.downcast_ref(), right.downcast_ref()) {
        return equal_lists(left, right);
    }
    if let (Some(left), Some(right)) = (left.downcast_ref(), right.downcast_ref()) {
        return equal_maps(left, right);
    }
    let doubles = [left, right].map(|value| value.downcast_ref::<CelDouble>());
    Ok(left.equals(right)
        && match doubles {
            [Some(double), None] => is_exactly(right, *double.inner()),
            [None, Some(double)] => is_exactly(left, *double.inner()),
            [Some(_), Some(_)] | [None, None] => true,
        })
}

/// Whether an integer is that double, and not only rounded to it.
fn is_exactly(value: &dyn Val, double: f64) -> bool {
    integer(value).and_then(|integer| exactly(integer, double)) == Some(Ordering::Equal)
}

fn integer(value: &dyn Val) -> Option<i128> {
    let int = value.downcast_ref::<CelInt>();
    let uint = value.downcast_ref::<CelUInt>();
    int.map(|int| i128::from(*int.inner()))
        .or_else(|| uint.map(|uint| i128::from(*uint.inner())))
}

fn equal_lists(left: &CelList<'_>, right: &CelList<'_>) -> Result<bool, Mismatch> {
    let (left, right) = (left.inner(), right.inner());
    if left.len() != right.len() {
        return Ok(false);
    }
    let pairs = left.iter().zip(right);
    all(pairs.map(|(left, right)| equal(left.as_ref(), right.as_ref())))
}

fn equal_maps(left: &CelMap<'_>, right: &CelMap<'_>) -> Result<bool, Mismatch> {
    if left.inner().len() != right.inner().len() {
        return Ok(false);
    }
    let kinds = key_kinds(right);
    all(left.inner().iter().map(|(key, value)| {
        // `1` and `1u` are one key.
        let same = match key {
            CelMapKey::Int(int) => u64::try_from(*int.inner()).ok().map(CelMapKey::from),
            CelMapKey::UInt(uint) => i64::try_from(*uint.inner()).ok().map(CelMapKey::from),
            CelMapKey::Bool(_) | CelMapKey::String(_) => None,
        };
        let find = |key| right.inner().get(key);
        match find(key).or_else(|| find(same.as_ref()?)) {
            Some(other) => equal(value.as_ref(), other.as_ref()),
            None if kinds.contains(&kind(key.inner())) => Ok(false),
            None => Err(Mismatch([key.inner(), right].map(type_name))),
        }
    }))
}

/// The kinds of keys that a map has.
fn key_kinds(map: &CelMap<'_>) -> Vec<Kind> {
    let mut kinds = Vec::new();
    for key in map.inner().keys() {
        let kind = kind(key.inner());
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

/// True if all are; false if one is not; failed if that cannot be told.
fn all(mut results: impl Iterator<Item = Result<bool, Mismatch>>) -> Result<bool, Mismatch> {
    any(results.by_ref().map(|result| result.map(|yes| !yes))).map(|one_is_not| !one_is_not)
}

/// True if one is; failed if that cannot be told; false if none is.
fn any(results: impl Iterator<Item = Result<bool, Mismatch>>) -> Result<bool, Mismatch> {
    let mut outcome = Ok(false);
    for result in results {
        match result {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(mismatch) => outcome = outcome.and(Err(mismatch)),
        }
    }
    outcome
}

/// The kind of a value, where numbers are one.
fn kind(value: &dyn Val) -> Kind {
    match value.get_type().kind() {
        Kind::Int | Kind::UInt => Kind::Double,
        kind => kind,
    }
}

fn type_name(value: &dyn Val) -> String {
    value.get_type().name().to_owned()
}

fn mismatch(operator: &str, types: [String; 2]) -> ExecutionError {
    ExecutionError::no_such_overload(operator, types.to_vec())
}

fn key_value<'v>(key: &CelMapKey<'v>) -> Box<dyn Val + 'v> {
    match key {
        CelMapKey::Bool(key) => Box::new(*key),
        CelMapKey::Int(key) => Box::new(*key),
        CelMapKey::UInt(key) => Box::new(*key),
        CelMapKey::String(key) => Box::new(key.clone()),
    }
}
