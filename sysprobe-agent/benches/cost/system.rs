//! The few system calls that the measurements need.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use anyhow::{Context, Result};
use aya::maps::{MapInfo, loaded_maps};
use aya_obj::generated::{bpf_attr, bpf_cmd};

/// Keeps this process, and those that it starts, on one CPU.
pub(crate) fn pin(cpu: u32) -> io::Result<()> {
    // SAFETY: a set is plain bits, for which zero bytes are valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the macro writes inside the set, whatever the number.
    unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    // SAFETY: the address and the size are those of a live set.
    if unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Has this process, and those that it starts, wait their turn when one of them is woken. Otherwise a load
/// may settle in one of several patterns of preemption, which cost different amounts.
pub(crate) fn batch() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads one live value.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Microseconds of CPU that this thread has used.
pub(crate) fn cpu_us() -> f64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every Linux, and the address is of a live value.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    now.tv_sec as f64 * 1e6 + now.tv_nsec as f64 / 1e3
}

/// What the kernel accounts for a map (`memlock` of its descriptor).
pub(crate) fn memlock(map: BorrowedFd<'_>) -> Result<u64> {
    let path = format!("/proc/self/fdinfo/{}", map.as_raw_fd());
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    let value = text.lines().find_map(|line| line.strip_prefix("memlock:")).context("no memlock line")?;
    Ok(value.trim().parse()?)
}

/// The map of that name that was made last.
pub(crate) fn newest_map(name: &str) -> Result<MapInfo> {
    let named = loaded_maps().filter_map(Result::ok).filter(|map| map.name_as_str() == Some(name));
    named.max_by_key(MapInfo::id).with_context(|| format!("no map is called {name}"))
}

/// All entries of a hash in as few calls as it takes; returns how many there are. `values` has room for as
/// many values as `keys` has elements.
pub(crate) fn read_batch(map: BorrowedFd<'_>, keys: &mut [u64], values: &mut [u8]) -> io::Result<usize> {
    // SAFETY: a union of plain integers, for which zero bytes are valid.
    let mut attr: bpf_attr = unsafe { std::mem::zeroed() };
    let mut position = 0_u64;
    attr.batch.map_fd = map.as_raw_fd().cast_unsigned();
    attr.batch.out_batch = std::ptr::from_mut(&mut position) as u64;
    attr.batch.keys = keys.as_mut_ptr() as u64;
    attr.batch.values = values.as_mut_ptr() as u64;
    attr.batch.count = u32::try_from(keys.len()).map_err(io::Error::other)?;
    let command = bpf_cmd::BPF_MAP_LOOKUP_BATCH as libc::c_int;
    // SAFETY: both slices have room for `count` entries, and all addresses outlive the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut attr, size_of::<bpf_attr>()) };
    let error = io::Error::last_os_error();
    // The slices have room for everything, so the call ends at the map's end.
    if result < 0 && error.raw_os_error() != Some(libc::ENOENT) {
        return Err(error);
    }
    // SAFETY: the kernel has written the number of entries.
    Ok(unsafe { attr.batch.count } as usize)
}

/// The descriptor behind an aya map.
pub(crate) fn descriptor(map: &aya::maps::Map) -> Result<BorrowedFd<'_>> {
    use aya::maps::Map;
    match map {
        Map::Array(data) | Map::HashMap(data) | Map::PerCpuArray(data) | Map::PerCpuHashMap(data) => {
            Ok(data.fd().as_fd())
        }
        _ => anyhow::bail!("a map of a kind that is not measured"),
    }
}
