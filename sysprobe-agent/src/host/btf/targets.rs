//! Which functions and tracepoints the kernel has, of those that the probes hook.

use std::collections::BTreeSet;

use btf_rs::Type;

use super::Types;
use crate::probe::Target;

impl Types {
    /// Those that are there. A function that the compiler has inlined everywhere has no type.
    pub(in crate::host) fn targets(&self, wanted: impl Iterator<Item = Target>) -> BTreeSet<Target> {
        let wanted: BTreeSet<Target> = wanted.collect();
        wanted.into_iter().filter(|target| self.has(*target)).collect()
    }

    fn has(&self, target: Target) -> bool {
        match target {
            Target::Function(name) => self.named(name).iter().any(|ty| matches!(ty, Type::Func(_))),
            // What a typed program for the tracepoint takes its arguments' types from.
            Target::Tracepoint(name) => {
                let typed = self.named(&format!("btf_trace_{name}"));
                typed.iter().any(|ty| matches!(ty, Type::Typedef(_)))
            }
        }
    }
}
