//! The `bpf(2)` commands that aya does not offer.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use aya_obj::generated::{bpf_attach_type, bpf_attr, bpf_cmd, bpf_link_info, bpf_prog_info};

/// Issues a command that returns nothing but success. The attribute stays valid and unmoved for the call.
///
/// # Safety
///
/// Every address in `attr` must be valid for what the command does with it.
pub(super) unsafe fn bpf(command: bpf_cmd, attr: &mut bpf_attr) -> io::Result<()> {
    // SAFETY: the caller's promise.
    unsafe { call(command, attr) }.map(drop)
}

/// As [`bpf`], for commands that return a descriptor.
///
/// # Safety
///
/// As for [`bpf`].
unsafe fn call(command: bpf_cmd, attr: &mut bpf_attr) -> io::Result<i32> {
    // SAFETY: the attribute is a live reference of the size that is passed; its addresses are the caller's
    // promise.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command as libc::c_int, std::ptr::from_mut(attr), size_of::<bpf_attr>())
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { i32::try_from(result).map_err(io::Error::other) }
}

/// An attribute with every byte zero, as the kernel wants unused members to be.
pub(super) fn zeroed() -> bpf_attr {
    // SAFETY: a union of plain integers, for which zero bytes are valid.
    unsafe { std::mem::zeroed() }
}

/// Runs a raw tracepoint program once on a CPU (5.10).
pub(super) fn run_on_cpu(program: BorrowedFd<'_>, cpu: u32) -> io::Result<()> {
    const BPF_F_TEST_RUN_ON_CPU: u32 = 1;
    let mut attr = zeroed();
    attr.test.prog_fd = program.as_raw_fd().cast_unsigned();
    attr.test.flags = BPF_F_TEST_RUN_ON_CPU;
    attr.test.cpu = cpu;
    // SAFETY: no address is set.
    unsafe { bpf(bpf_cmd::BPF_PROG_TEST_RUN, &mut attr) }
}

/// Attaches a program to a perf event (5.15; `EINVAL` before).
pub(super) fn link_to_counter(program: BorrowedFd<'_>, counter: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut attr = zeroed();
    attr.link_create.__bindgen_anon_1.prog_fd = program.as_raw_fd().cast_unsigned();
    attr.link_create.__bindgen_anon_2.target_fd = counter.as_raw_fd().cast_unsigned();
    attr.link_create.attach_type = bpf_attach_type::BPF_PERF_EVENT as u32;
    // SAFETY: no address is set.
    let link = unsafe { call(bpf_cmd::BPF_LINK_CREATE, &mut attr) }?;
    // SAFETY: a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(link) })
}

/// Puts a map into an array of maps.
pub(super) fn put_map(array: BorrowedFd<'_>, place: u32, map: BorrowedFd<'_>) -> io::Result<()> {
    let map = map.as_raw_fd();
    let mut attr = zeroed();
    attr.__bindgen_anon_2.map_fd = array.as_raw_fd().cast_unsigned();
    attr.__bindgen_anon_2.key = std::ptr::from_ref(&place) as u64;
    attr.__bindgen_anon_2.__bindgen_anon_1.value = std::ptr::from_ref(&map) as u64;
    // SAFETY: the addresses are those of live values of the sizes of the array's.
    unsafe { bpf(bpf_cmd::BPF_MAP_UPDATE_ELEM, &mut attr) }
}

/// Makes an iterator walk all objects of its kind (5.8).
pub(super) fn link_iterator(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut attr = zeroed();
    attr.link_create.__bindgen_anon_1.prog_fd = program.as_raw_fd().cast_unsigned();
    attr.link_create.attach_type = bpf_attach_type::BPF_TRACE_ITER as u32;
    // SAFETY: no address is set.
    let link = unsafe { call(bpf_cmd::BPF_LINK_CREATE, &mut attr) }?;
    // SAFETY: a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(link) })
}

/// Makes an iterator walk a map's elements (5.9).
pub(super) fn link_to_map(program: BorrowedFd<'_>, map: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // The beginning of `union bpf_iter_link_info`: a map's descriptor.
    let info = map.as_raw_fd().cast_unsigned();
    let mut attr = zeroed();
    attr.link_create.__bindgen_anon_1.prog_fd = program.as_raw_fd().cast_unsigned();
    attr.link_create.attach_type = bpf_attach_type::BPF_TRACE_ITER as u32;
    // SAFETY: a union of plain integers; this member is the one that iterators have.
    let over = unsafe { &mut attr.link_create.__bindgen_anon_3.__bindgen_anon_1 };
    over.iter_info = std::ptr::from_ref(&info) as u64;
    over.iter_info_len = u32::try_from(size_of_val(&info)).map_err(io::Error::other)?;
    // SAFETY: the address is that of a live value of the length that is given.
    let link = unsafe { call(bpf_cmd::BPF_LINK_CREATE, &mut attr) }?;
    // SAFETY: a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(link) })
}

/// A file that runs an iterator when it is read.
pub(super) fn iterator_of(link: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut attr = zeroed();
    attr.iter_create.link_fd = link.as_raw_fd().cast_unsigned();
    // SAFETY: no address is set.
    let file = unsafe { call(bpf_cmd::BPF_ITER_CREATE, &mut attr) }?;
    // SAFETY: a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

/// The kernel's information about a program. Members that an older kernel does not know stay zero.
pub(super) fn program_info(program: BorrowedFd<'_>) -> io::Result<bpf_prog_info> {
    // SAFETY: plain integers, for which zero bytes are valid.
    unsafe { info(program) }
}

/// As [`program_info`], for a link.
pub(super) fn link_info(link: BorrowedFd<'_>) -> io::Result<bpf_link_info> {
    // SAFETY: plain integers, for which zero bytes are valid.
    unsafe { info(link) }
}

/// # Safety
///
/// Zero bytes must be a valid `T`, and `T` must be the kernel's type for information about such an object.
unsafe fn info<T>(object: BorrowedFd<'_>) -> io::Result<T> {
    // SAFETY: the caller's promise.
    let mut info: T = unsafe { std::mem::zeroed() };
    let mut attr = zeroed();
    attr.info.bpf_fd = object.as_raw_fd().cast_unsigned();
    attr.info.info_len = u32::try_from(size_of::<T>()).map_err(io::Error::other)?;
    attr.info.info = std::ptr::from_mut(&mut info) as u64;
    // SAFETY: the address is that of a live value of the length that is given.
    unsafe { bpf(bpf_cmd::BPF_OBJ_GET_INFO_BY_FD, &mut attr) }?;
    Ok(info)
}

/// Makes the kernel measure the run time of all BPF programs while the descriptor is open (5.8).
pub fn measure_programs() -> Result<OwnedFd, aya::sys::SyscallError> {
    aya::sys::enable_stats(aya::sys::Stats::RunTime)
}
