//! `eq`, `lt` and their like, `index`, `slice` and `len`.

use std::cmp::Ordering;

use super::value::Value;

/// Whether two values are equal.
pub(crate) fn equal(left: &Value, right: &Value) -> Result<bool, String> {
    match (left, right) {
        (Value::Bool(a), Value::Bool(b)) => Ok(a == b),
        (Value::Int(a), Value::Int(b)) | (Value::Duration(a), Value::Duration(b)) => Ok(a == b),
        (Value::Int(a), Value::Duration(b)) | (Value::Duration(a), Value::Int(b)) => Ok(a == b),
        (Value::Float(a), Value::Float(b)) => Ok(a == b),
        (Value::Text(a), Value::Text(b)) => Ok(a == b),
        (Value::Nil | Value::Missing, Value::Nil | Value::Missing) => Ok(true),
        (Value::Nil | Value::Missing, _) | (_, Value::Nil | Value::Missing) => Ok(false),
        (Value::Texts(_) | Value::Map(_) | Value::List(_) | Value::Structure(_), _) => {
            Err(format!("non-comparable type {}", left.type_name()))
        }
        _ => Err("incompatible types for comparison".to_owned()),
    }
}

/// Which of two values comes first; `None` when one is NaN.
pub(crate) fn order(left: &Value, right: &Value) -> Result<Option<Ordering>, String> {
    match (left, right) {
        (Value::Int(a) | Value::Duration(a), Value::Int(b) | Value::Duration(b)) => Ok(Some(a.cmp(b))),
        (Value::Float(a), Value::Float(b)) => Ok(a.partial_cmp(b)),
        (Value::Text(a), Value::Text(b)) => Ok(Some(a.cmp(b))),
        (
            Value::Int(_) | Value::Duration(_) | Value::Float(_) | Value::Text(_),
            Value::Int(_) | Value::Duration(_) | Value::Float(_) | Value::Text(_),
        ) => Err("incompatible types for comparison".to_owned()),
        _ => Err("invalid type for comparison".to_owned()),
    }
}

/// `lt`, `le`, `gt` or `ge`.
pub(crate) fn ordered(name: &str, left: &Value, right: &Value) -> Result<bool, String> {
    let order = order(left, right)?;
    Ok(match name {
        "lt" => order == Some(Ordering::Less),
        "le" => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        "gt" => order == Some(Ordering::Greater),
        _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
    })
}

/// The number of bytes or elements.
pub(crate) fn length(value: &Value) -> Result<usize, String> {
    match value {
        Value::Text(text) => Ok(text.len()),
        Value::Texts(map) => Ok(map.len()),
        Value::Map(map) => Ok(map.len()),
        Value::List(list) => Ok(list.len()),
        Value::Nil | Value::Missing => Err("len of nil pointer".to_owned()),
        other => Err(format!("len of type {}", other.type_name())),
    }
}

/// The element of a list or a map.
pub(crate) fn index(value: &Value, key: &Value) -> Result<Value, String> {
    let place = |count: usize| match key {
        Value::Int(at) => {
            usize::try_from(*at).ok().filter(|at| *at < count).ok_or_else(|| format!("index out of range: {at}"))
        }
        other => Err(format!("cannot index slice/array with type {}", other.type_name())),
    };
    let name = || match key {
        Value::Text(name) => Ok(name),
        other => Err(format!("value has type {}; should be string", other.type_name())),
    };
    match value {
        Value::List(list) => Ok(list[place(list.len())?].clone()),
        Value::Text(text) => Ok(Value::Int(i64::from(text.as_bytes()[place(text.len())?]))),
        Value::Texts(map) => Ok(Value::text(map.get(name()?.as_ref()).map_or("", String::as_str))),
        Value::Map(map) => Ok(map.get(name()?.as_ref()).cloned().unwrap_or(Value::Missing)),
        Value::Nil | Value::Missing => Err("index of untyped nil".to_owned()),
        other => Err(format!("can't index item of type {}", other.type_name())),
    }
}

/// Part of a text or a list.
pub(crate) fn slice(value: &Value, bounds: &[Value]) -> Result<Value, String> {
    let count = match value {
        Value::Text(_) | Value::List(_) => length(value)?,
        other => return Err(format!("can't slice item of type {}", other.type_name())),
    };
    let mut places = [0, count];
    if bounds.len() > 2 {
        return Err("too many slice indexes".to_owned());
    }
    for (place, bound) in places.iter_mut().zip(bounds) {
        let Value::Int(at) = bound else {
            return Err(format!("cannot index slice/array with type {}", bound.type_name()));
        };
        *place =
            usize::try_from(*at).ok().filter(|at| *at <= count).ok_or_else(|| format!("index out of range: {at}"))?;
    }
    if places[0] > places[1] {
        return Err(format!("invalid slice index: {} > {}", places[0], places[1]));
    }
    Ok(match value {
        Value::List(list) => Value::List(list[places[0]..places[1]].to_vec().into()),
        Value::Text(text) => Value::text(&String::from_utf8_lossy(&text.as_bytes()[places[0]..places[1]])),
        _ => unreachable!("only texts and lists have passed"),
    })
}
