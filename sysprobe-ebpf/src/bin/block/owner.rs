//! The owner of a request. At the submission it is the current task's cgroup. For requests of kernel threads
//! (write-back, a loop device) the kernel may have noted the cgroup in the bio.

use sysprobe_common::block::BlockLoss;
use sysprobe_common::cgroup::{KERNEL, ROOT_ID};
use sysprobe_ebpf::cgroup::{self, CFG_VIA_CONTROLLER};
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::{ABSENT, Address, Object, read_u64_at};
use sysprobe_ebpf::slots::is_kernel_thread;

use crate::accounting::lose;

globals!(
    /// Absent without `CONFIG_BLK_CGROUP`.
    OFF_BIO_BLKG,
    OFF_BLKCG_CGROUP,
    OFF_BLKG_BLKCG,
    OFF_CGROUP_LEVEL,
    /// Up to 6.0 the ids of the cgroups from the root down to this one; later, pointers to them.
    OFF_CGROUP_LINE_IDS,
    OFF_CGROUP_LINE,
    OFF_CGROUP_ROOT,
);

/// The cgroup to charge for a bio that the current task submits; see `block::Key`.
#[inline(always)]
pub(crate) fn of<T: Object>(bio: T) -> u64 {
    match T::current_task() {
        Some(task) => charged(bio, task),
        None => charged(bio, Address::current()),
    }
}

#[inline(always)]
fn charged(bio: impl Object, task: impl Object) -> u64 {
    let Some(own) = cgroup::of_task(task) else {
        lose(BlockLoss::UnreadableCgroup);
        return 0;
    };
    let is_kernel = is_kernel_thread(task);
    let noted = noted(bio, own, is_kernel);
    if noted != 0 {
        return noted;
    }
    match cgroup::id_of(own) {
        0 => {
            lose(BlockLoss::UnreadableCgroup);
            0
        }
        ROOT_ID if is_kernel => KERNEL,
        id => id,
    }
}

/// The cgroup that the kernel has noted in the bio; 0 if there is none, or if the task's own is more exact.
/// The kernel notes the nearest cgroup with the io controller, or the root. Its cgroups can be compared with
/// ours only on the default hierarchy.
#[inline(always)]
fn noted(bio: impl Object, own: impl Object, is_kernel: bool) -> u64 {
    if OFF_BIO_BLKG.load() == ABSENT || CFG_VIA_CONTROLLER.load() != 0 {
        return 0;
    }
    let Some(cgroup) = cgroup_of(bio) else { return 0 };
    let id = cgroup::id_of(cgroup);
    if id <= ROOT_ID || cgroup.u64(&OFF_CGROUP_ROOT) != own.u64(&OFF_CGROUP_ROOT) {
        return 0;
    }
    let level = cgroup.u32(&OFF_CGROUP_LEVEL).unwrap_or(0);
    if !is_kernel && ancestor(own, level) == id {
        return 0;
    }
    id
}

#[inline(always)]
fn cgroup_of<T: Object>(bio: T) -> Option<T> {
    let group = bio.follow(&OFF_BIO_BLKG).filter(|group| group.address() != 0)?;
    group.follow(&OFF_BLKG_BLKCG)?.follow(&OFF_BLKCG_CGROUP)
}

/// The verifier wants a bound. Below a level this deep, the cgroup in the bio would be charged.
const LEVELS: u32 = 1 << 12;

/// The id of this cgroup's ancestor, or of itself, at a level below the root; 0 for none. In 5.10, programs
/// of this kind have no helper for it.
#[inline(always)]
fn ancestor(cgroup: impl Object, level: u32) -> u64 {
    if cgroup.u32(&OFF_CGROUP_LEVEL).is_none_or(|own| own < level) {
        return 0;
    }
    let level = u64::from(level & (LEVELS - 1));
    let place = |line: u32| read_u64_at(cgroup.address() + u64::from(line) + 8 * level);
    if OFF_CGROUP_LINE_IDS.load() != ABSENT {
        return place(OFF_CGROUP_LINE_IDS.load()).unwrap_or(0);
    }
    place(OFF_CGROUP_LINE.load()).map_or(0, |above| cgroup::id_of(Address(above)))
}
