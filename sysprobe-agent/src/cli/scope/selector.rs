//! Label selectors as in `kubectl -l`, except for its `<` and `>`. The crate `kube` can match expressions but
//! not parse them.

use std::fmt;

use kube::core::{Expression, Selector, SelectorExt as _};

use crate::snapshot::WorkloadSample;

const FORMS: &str = "write `key=value`, `key!=value`, `key in (a,b)`, `key notin (a,b)`, `key` or `!key`, \
                     with commas between";

/// Some pods, by their labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSelector {
    selector: Selector,
    text: String,
}

impl PodSelector {
    /// Parses a selector; the error is a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let requirements = split(text)?.into_iter().map(requirement);
        let expressions = requirements.collect::<Result<Vec<Expression>, String>>()?;
        Ok(Self { selector: Selector::from_iter(expressions), text: text.trim().to_owned() })
    }

    /// Never selects workloads outside of pods, nor pods with unknown labels.
    pub(super) fn has(&self, sample: &WorkloadSample) -> bool {
        let labels = sample.pod.as_ref().and_then(|pod| pod.labels.as_ref());
        labels.is_some_and(|labels| self.selector.matches(labels))
    }
}

impl fmt::Display for PodSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Splits at commas, except within parentheses.
fn split(text: &str) -> Result<Vec<&str>, String> {
    let mut depth = 0_i32;
    let at_comma = |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    };
    let parts: Vec<&str> = text.split(at_comma).map(str::trim).collect();
    if parts.iter().any(|part| part.is_empty()) { Err(FORMS.to_owned()) } else { Ok(parts) }
}

fn requirement(text: &str) -> Result<Expression, String> {
    if let Some((words, values)) = text.split_once('(') {
        return of_set(words, values);
    }
    if let Some((left, right)) = text.split_once('=') {
        let (left, is_negated) = left.strip_suffix('!').map_or((left, false), |left| (left, true));
        let right = if is_negated { right } else { right.strip_prefix('=').unwrap_or(right) };
        let (key, value) = (key(left)?, value(right)?);
        return Ok(if is_negated { Expression::NotEqual(key, value) } else { Expression::Equal(key, value) });
    }
    match text.strip_prefix('!') {
        Some(absent) => Ok(Expression::DoesNotExist(key(absent)?)),
        None => Ok(Expression::Exists(key(text)?)),
    }
}

fn of_set(words: &str, values: &str) -> Result<Expression, String> {
    let values = values.strip_suffix(')').filter(|values| !values.trim().is_empty()).ok_or(FORMS)?;
    let values = values.split(',').map(value).collect::<Result<_, _>>()?;
    match words.split_whitespace().collect::<Vec<_>>()[..] {
        [left, "in"] => Ok(Expression::In(key(left)?, values)),
        [left, "notin"] => Ok(Expression::NotIn(key(left)?, values)),
        _ => Err(FORMS.to_owned()),
    }
}

/// `name`, or `prefix/name`.
fn key(text: &str) -> Result<String, String> {
    let key = text.trim();
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if !is_name(name) || !prefix.is_none_or(is_domain) {
        return Err(format!("`{key}` is not a valid label key: {FORMS}"));
    }
    Ok(key.to_owned())
}

/// A label's value, which may be empty.
fn value(text: &str) -> Result<String, String> {
    let value = text.trim();
    if value.is_empty() || is_name(value) {
        Ok(value.to_owned())
    } else {
        Err(format!("`{value}` is not a valid label value: {FORMS}"))
    }
}

fn is_domain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(|part| is_name(part) && !part.contains('_'))
}

/// <https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set>
fn is_name(text: &str) -> bool {
    let is_inside = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c);
    let has_ends = text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric());
    has_ends && text.len() <= 63 && text.chars().all(is_inside)
}
