//! Offsets of members and positions of their bits, values of enumerators, and the number of parameters of
//! tracepoints and of functions that a member points to. Members of anonymous structs and unions count as
//! their parent's, as in C.

use std::collections::{BTreeMap, BTreeSet};

use btf_rs::{Btf, BtfType, Type};
use schemars::JsonSchema;
use serde::Serialize;

use super::Types;

/// Kernel type information (BTF) by path. `STRUCT.MEMBER` is the offset of a member in bytes
/// (`task_struct.sched_info.run_delay`), and `STRUCT.MEMBER.#` the number of its first bit within that byte.
/// `ENUM.NAME` is the value of an enumerator. `STRUCT.MEMBER.()` is the number of parameters of the function
/// that a member points to, and `btf_trace_NAME.()` that of a tracepoint, including the kernel's own first
/// one. A path that this kernel does not have is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Layout(BTreeMap<String, u32>);

impl Layout {
    /// Looks up everything that `wanted` names.
    pub(in crate::host) fn of<'a>(types: &Types, wanted: impl Iterator<Item = &'a str>) -> Self {
        let mut by_type: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (name, members) in wanted.filter_map(|path| path.split_once('.')) {
            by_type.entry(name).or_default().insert(members);
        }
        let found = types.named(by_type.keys().copied());
        let mut layout = Self::default();
        for (name, members) in by_type {
            // Several types may have the same name; the one with the member is meant.
            let candidates = found.get(name).into_iter().flatten();
            let value = |members| candidates.clone().find_map(|ty| value_of(&types.0, ty, members));
            let found = members.into_iter().filter_map(|path| Some((format!("{name}.{path}"), value(path)?)));
            layout.0.extend(found);
        }
        layout
    }

    #[must_use]
    pub fn get(&self, path: &str) -> Option<u32> {
        self.0.get(path).copied()
    }

    /// For tests and recorded facts.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, u32)>) -> Self {
        Self(pairs.into_iter().map(|(path, value)| (path.to_owned(), value)).collect())
    }
}

fn value_of(btf: &Btf, ty: &Type, members: &str) -> Option<u32> {
    match ty {
        Type::Enum(values) => {
            values.members.iter().find(|value| is_named(btf, *value, members)).map(btf_rs::EnumMember::val)
        }
        Type::Typedef(_) if members == PARAMETERS => parameters(btf, ty),
        _ => byte_offset(btf, ty, members),
    }
}

const PARAMETERS: &str = "()";
const BIT: &str = "#";

/// The number of parameters of the function that a typedef points to.
fn parameters(btf: &Btf, typedef: &Type) -> Option<u32> {
    parameters_of_pointer(btf, &btf.resolve_chained_type(typedef.as_btf_type()?).ok()?)
}

fn parameters_of_pointer(btf: &Btf, pointer: &Type) -> Option<u32> {
    match btf.resolve_chained_type(pointer.as_btf_type()?).ok()? {
        Type::FuncProto(function) => u32::try_from(function.parameters.len()).ok(),
        _ => None,
    }
}

fn byte_offset(btf: &Btf, ty: &Type, members: &str) -> Option<u32> {
    let (name, rest) = members.split_once('.').map_or((members, None), |(name, rest)| (name, Some(rest)));
    let (bits, member_type) = find_member(btf, ty, name)?;
    match rest {
        None => Some(bits / 8),
        Some(BIT) => Some(bits % 8),
        Some(PARAMETERS) => parameters_of_pointer(btf, &member_type),
        Some(rest) => Some(bits / 8 + byte_offset(btf, &member_type, rest)?),
    }
}

/// The bit offset and type of a member, found through anonymous members too.
fn find_member(btf: &Btf, ty: &Type, name: &str) -> Option<(u32, Type)> {
    let (Type::Struct(fields) | Type::Union(fields)) = ty else { return None };
    fields.members.iter().find_map(|member| {
        let member_type = strip_modifiers(btf, btf.resolve_chained_type(member).ok()?)?;
        if is_named(btf, member, name) {
            return Some((member.bit_offset(), member_type));
        }
        let anonymous = btf.resolve_name(member).is_ok_and(|name| name.is_empty());
        let (inner, found) = anonymous.then(|| find_member(btf, &member_type, name)).flatten()?;
        Some((member.bit_offset() + inner, found))
    })
}

fn strip_modifiers(btf: &Btf, mut ty: Type) -> Option<Type> {
    while let Type::Const(_) | Type::Volatile(_) | Type::Typedef(_) | Type::TypeTag(_) = ty {
        ty = btf.resolve_chained_type(ty.as_btf_type()?).ok()?;
    }
    Some(ty)
}

fn is_named(btf: &Btf, member: &dyn BtfType, name: &str) -> bool {
    btf.resolve_name(member).is_ok_and(|found| found == name)
}
