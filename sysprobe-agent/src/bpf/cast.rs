//! Calls of the kernel's `bpf_rdonly_cast`, which tells the verifier the type at an address. Neither rustc
//! nor aya can emit calls of kernel functions. So programs call a placeholder number instead
//! (`sysprobe-common/src/cast.rs`), in a branch that is only live if the BTF ids of the types are set.
//! Otherwise the verifier removes the branch as dead code, so older kernels accept the same programs.

use aya::Btf;
use aya_obj::btf::BtfKind;
use sysprobe_common::cast::CALL as PLACEHOLDER;

use super::instruction::{CALL, Instruction, SIZE};

/// `BPF_PSEUDO_KFUNC_CALL` as the source register: the number is a kernel function's.
const KERNEL_FUNCTION: u8 = 2;

/// BTF ids of the function and of the types, in a kernel that has the function.
pub(super) struct Cast {
    function: u32,
    file: u32,
    list_head: u32,
    udp_sock: u32,
}

impl Cast {
    pub(super) fn of(btf: &Btf) -> Option<Self> {
        let number = |name, kind| btf.id_by_type_name_kind(name, kind).ok();
        Some(Self {
            function: number("bpf_rdonly_cast", BtfKind::Func)?,
            file: number("file", BtfKind::Struct)?,
            list_head: number("list_head", BtfKind::Struct)?,
            // Without it, only its own casts are left out.
            udp_sock: number("udp_sock", BtfKind::Struct).unwrap_or(0),
        })
    }

    /// The globals that tell the programs the BTF ids of the types. An object has those that it needs.
    pub(super) const fn globals(&self) -> [(&'static str, u32); 3] {
        [("BTF_FILE", self.file), ("BTF_LIST_HEAD", self.list_head), ("BTF_UDP_SOCK", self.udp_sock)]
    }

    /// Whether a global is one of these.
    pub(super) fn sets(global: &str) -> bool {
        global.starts_with("BTF_")
    }

    /// Whether an object contains calls of the placeholder.
    pub(super) fn is_wanted_by(object: &[u8]) -> bool {
        object.as_chunks().0.contains(&STANDS_FOR)
    }

    /// Replaces calls of the placeholder with calls of the kernel function.
    pub(super) fn put_into(&self, object: &[u8]) -> Vec<u8> {
        let call = call(KERNEL_FUNCTION, self.function);
        let mut object = object.to_vec();
        // Sections of instructions are aligned to eight bytes.
        let (instructions, _) = object.as_chunks_mut();
        instructions.iter_mut().filter(|found| **found == STANDS_FOR).for_each(|found| *found = call);
        object
    }
}

const STANDS_FOR: [u8; SIZE] = call(0, PLACEHOLDER);

const fn call(source: u8, function: u32) -> [u8; SIZE] {
    Instruction::new(CALL, (0, source), 0, function.cast_signed()).to_bytes()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use object::{Object as _, ObjectSymbol as _};

    use super::*;
    use crate::probe::PROBES;

    const CAST: Cast = Cast { function: 7, file: 1, list_head: 2, udp_sock: 3 };

    /// A misspelt name would leave the branch with the cast dead on every kernel.
    #[test]
    fn objects_with_casts_have_the_globals_that_are_set() {
        let expected = BTreeSet::from(CAST.globals().map(|(name, _)| name));
        let sets = PROBES.iter().flat_map(|probe| probe.sets);
        let with_casts = sets.filter(|set| Cast::is_wanted_by(set.object.bytes));
        for set in with_casts.clone() {
            let object = object::File::parse(set.object.bytes).expect("an object");
            let names = object.symbols().filter_map(|symbol| symbol.name().ok());
            let found: BTreeSet<_> = names.filter(|name| Cast::sets(name)).collect();
            assert_eq!(found, expected, "{}", set.object.file);
        }
        assert_ne!(with_casts.count(), 0);
    }

    #[test]
    fn only_calls_of_the_number_become_calls_of_the_function() {
        let (other, exit) = (call(0, 1), [0x95, 0, 0, 0, 0, 0, 0, 0]);
        let object = [other, call(0, PLACEHOLDER), exit].concat();
        assert!(Cast::is_wanted_by(&object));
        assert_eq!(CAST.put_into(&object), [other, call(KERNEL_FUNCTION, 7), exit].concat());
    }

    #[test]
    fn an_object_without_such_calls_wants_none() {
        assert!(!Cast::is_wanted_by(&[call(0, 1), call(KERNEL_FUNCTION, PLACEHOLDER)].concat()));
    }
}
