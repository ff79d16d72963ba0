//! Events for created, removed and renamed cgroups.

/// Room for a cgroup's own name: `NAME_MAX` and a terminator.
pub const NAME_SIZE: u32 = 256;

/// The id of every hierarchy's root, the first one that kernfs assigns.
pub const ROOT_ID: u64 = 1;

/// Stands for the kernel's own work in place of a cgroup's id.
pub const KERNEL: u64 = u64::MAX;

/// A cgroup was created.
pub const BORN: u32 = 1;
/// A cgroup was removed.
pub const DIED: u32 = 2;
/// A cgroup was renamed (cgroup v1 only).
pub const RENAMED: u32 = 3;

/// The size of the ring buffer in bytes: room for about 1,800 events.
pub const RING_BYTES: u32 = 512 * 1024;

/// The number of OOM kills is unknown, or the event is not a removal.
pub const KILLS_UNKNOWN: u64 = u64::MAX;

/// One event. The agent builds the path from the parent's.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CgroupEvent {
    /// `kernfs_node.id`: the inode number of the cgroup's directory.
    pub id: u64,
    /// The id of the parent directory.
    pub parent: u64,
    /// The OOM kills in a removed cgroup and below it. Its files are often gone before the agent has read
    /// them.
    pub oom_kills: u64,
    pub kind: u32,
    /// The length of `name`, without a terminator.
    pub length: u32,
    pub name: [u8; NAME_SIZE as usize],
}

const _: () = assert!(size_of::<CgroupEvent>() == 288 && align_of::<CgroupEvent>() == 8);

/// Event counters, which the agent compares with the events that it has read.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupCount {
    /// Events that the programs have seen in the key hierarchy.
    Born = 0,
    Died = 1,
    Renamed = 2,
    /// Events for which the ring buffer had no room. The agent then walks the hierarchy again.
    RingFull = 3,
    /// Events whose cgroup could not be read.
    Unreadable = 4,
}

impl CgroupCount {
    pub const ALL: [Self; 5] = [Self::Born, Self::Died, Self::Renamed, Self::RingFull, Self::Unreadable];
}
