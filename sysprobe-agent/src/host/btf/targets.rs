//! Which of the functions and tracepoints that the probes hook exist in the kernel.

use std::collections::BTreeSet;

use btf_rs::Type;

use super::Types;
use crate::probe::Target;

impl Types {
    /// The wanted targets that exist. A function that the compiler has inlined everywhere has no type.
    pub(in crate::host) fn targets(&self, wanted: impl Iterator<Item = Target>) -> BTreeSet<Target> {
        let wanted: BTreeSet<Target> = wanted.collect();
        let names: Vec<String> = wanted.iter().map(|target| type_of(*target)).collect();
        let found = self.named(names.iter().map(String::as_str));
        let of = |target| found.get(&type_of(target)).into_iter().flatten();
        wanted.into_iter().filter(|target| of(*target).any(|ty| is_of(*target, ty))).collect()
    }
}

/// The name of the type that exists if the target does.
fn type_of(target: Target) -> String {
    match target {
        Target::Function(name) => name.to_owned(),
        // A typed program for the tracepoint takes its arguments' types from this one.
        Target::Tracepoint(name) => format!("btf_trace_{name}"),
    }
}

const fn is_of(target: Target, ty: &Type) -> bool {
    match target {
        Target::Function(_) => matches!(ty, Type::Func(_)),
        Target::Tracepoint(_) => matches!(ty, Type::Typedef(_)),
    }
}
