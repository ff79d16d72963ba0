//! Cgroups: the events by which the kernel tells of births, deaths and new names.

/// Room for a cgroup's own name: `NAME_MAX` and a terminator.
pub const NAME_SIZE: u32 = 256;

/// The id of every hierarchy's root: kernfs numbers it first.
pub const ROOT_ID: u64 = 1;

/// Stands for the kernel's own work where a cgroup's id is expected.
pub const KERNEL: u64 = u64::MAX;

/// A cgroup was made.
pub const BORN: u32 = 1;
/// A cgroup was removed.
pub const DIED: u32 = 2;
/// A cgroup got another name (cgroup v1 only).
pub const RENAMED: u32 = 3;

/// The size of the events' ring buffer: eighteen hundred of them.
pub const RING_BYTES: u32 = 512 * 1024;

/// One event. The agent makes the path from the parent's.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CgroupEvent {
    /// `kernfs_node.id`: the inode number of the cgroup's directory.
    pub id: u64,
    /// The same of the directory that it is in.
    pub parent: u64,
    pub kind: u32,
    /// How much of `name` is meant, without a terminator.
    pub length: u32,
    pub name: [u8; NAME_SIZE as usize],
}

const _: () = assert!(size_of::<CgroupEvent>() == 280 && align_of::<CgroupEvent>() == 8);

/// Counters of the event stream, to compare with what the agent has read.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupCount {
    /// Events seen by the kernel side in the watched hierarchy.
    Born = 0,
    Died = 1,
    Renamed = 2,
    /// Events for which the ring buffer had no room: the agent walks the hierarchy again.
    RingFull = 3,
    /// Events whose cgroup could not be read.
    Unreadable = 4,
}

impl CgroupCount {
    pub const ALL: [Self; 5] = [Self::Born, Self::Died, Self::Renamed, Self::RingFull, Self::Unreadable];
}
