//! Whether a name leads to storage, for calls that have no file: an absolute name is not below a usual mount
//! point of a pseudo file system, and a relative one begins at a directory on storage.

use aya_ebpf::helpers::{bpf_probe_read_kernel_str_bytes, bpf_probe_read_user_str_bytes};
use sysprobe_common::vfs::pseudo::leads_to_pseudo;
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::{Object, read_u64};

use crate::file;

globals!(OFF_FILENAME_NAME);

/// `AT_FDCWD` of include/uapi/linux/fcntl.h.
pub(crate) const WORKING_DIRECTORY: i32 = -100;

/// `name` is a `struct filename`, or, for system calls and for some functions before 5.15, an address in the
/// caller's memory.
#[inline(always)]
#[expect(clippy::cast_sign_loss, reason = "a negative descriptor is none, and large as unsigned")]
pub(crate) fn is_storage(task: impl Object, directory: i32, name: u64) -> bool {
    let Some(start) = beginning(name) else { return false };
    if start[0] == b'/' {
        return !leads_to_pseudo(start);
    }
    if directory == WORKING_DIRECTORY {
        return file::works_in_storage(task);
    }
    file::is_storage_at(task, directory as u32)
}

/// The first bytes of a name, padded with zeros. `None` if the caller's address is bad.
#[inline(always)]
fn beginning(name: u64) -> Option<[u8; 8]> {
    let mut start = [0; 8];
    // Kernel addresses are in the upper half.
    let read = if name.cast_signed() < 0 {
        let text = read_u64(name, &OFF_FILENAME_NAME)?;
        // SAFETY: the helper checks the address.
        unsafe { bpf_probe_read_kernel_str_bytes(text as *const u8, &mut start) }.is_ok()
    } else {
        // SAFETY: as above.
        unsafe { bpf_probe_read_user_str_bytes(name as *const u8, &mut start) }.is_ok()
    };
    read.then_some(start)
}
