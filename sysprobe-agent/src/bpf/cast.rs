//! Calls of the kernel's `bpf_rdonly_cast`, which tells the verifier what is at an address. Neither rustc nor
//! aya knows calls of kernel functions: programs call a number instead (`sysprobe-common/src/cast.rs`), in a
//! branch that is only taken if the types' numbers are set. Without them the branch is removed unseen, so
//! older kernels take the same programs.

use aya::Btf;
use aya_obj::btf::BtfKind;
use sysprobe_common::cast::CALL;

/// `BPF_JMP | BPF_CALL` of include/uapi/linux/bpf.h.
const CALL_CODE: u8 = 0x85;
/// `BPF_PSEUDO_KFUNC_CALL` as source register, which is the upper half of its byte.
const KERNEL_FUNCTION: u8 = 2 << 4;

/// What a kernel that can cast calls the function and the types: numbers in its BTF.
pub(super) struct Cast {
    function: u32,
    file: u32,
    list_head: u32,
}

impl Cast {
    pub(super) fn of(btf: &Btf) -> Option<Self> {
        let number = |name, kind| btf.id_by_type_name_kind(name, kind).ok();
        Some(Self {
            function: number("bpf_rdonly_cast", BtfKind::Func)?,
            file: number("file", BtfKind::Struct)?,
            list_head: number("list_head", BtfKind::Struct)?,
        })
    }

    /// What the programs have to know.
    pub(super) const fn globals(&self) -> [(&'static str, u32); 2] {
        [("BTF_FILE", self.file), ("BTF_LIST_HEAD", self.list_head)]
    }

    /// Whether an object has calls of the number.
    pub(super) fn is_wanted_by(object: &[u8]) -> bool {
        instructions(object).contains(&STANDS_FOR)
    }

    /// Makes calls of the function of the calls of the number.
    pub(super) fn put_into(&self, object: &[u8]) -> Vec<u8> {
        let call = instruction(KERNEL_FUNCTION, self.function);
        let mut object = object.to_vec();
        let (instructions, _) = object.as_chunks_mut::<8>();
        instructions.iter_mut().filter(|found| **found == STANDS_FOR).for_each(|found| *found = call);
        object
    }
}

const STANDS_FOR: [u8; 8] = instruction(0, CALL);

/// Instructions have eight bytes, and so have the sections that they lie in.
const fn instructions(object: &[u8]) -> &[[u8; 8]] {
    object.as_chunks::<8>().0
}

const fn instruction(registers: u8, immediate: u32) -> [u8; 8] {
    let [a, b, c, d] = immediate.to_ne_bytes();
    [CALL_CODE, registers, 0, 0, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_of_the_number_become_calls_of_the_function() {
        let cast = Cast { function: 7, file: 1, list_head: 2 };
        let (other, exit) = (instruction(0, 1), [0x95, 0, 0, 0, 0, 0, 0, 0]);
        let object = [other, instruction(0, CALL), exit].concat();
        assert!(Cast::is_wanted_by(&object));
        assert_eq!(cast.put_into(&object), [other, instruction(KERNEL_FUNCTION, 7), exit].concat());
    }

    #[test]
    fn an_object_without_such_calls_wants_none() {
        assert!(!Cast::is_wanted_by(&[instruction(0, 1), instruction(KERNEL_FUNCTION, CALL)].concat()));
    }
}
