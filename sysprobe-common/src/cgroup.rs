//! Cgroups: the events by which the kernel tells of births and deaths.

/// The longest path the kernel hands to the tracepoints (`TRACE_CGROUP_PATH_LEN`), terminator included.
pub const PATH_MAX: u32 = 1024;

/// The id of every hierarchy's root: kernfs numbers it first.
pub const ROOT_ID: u64 = 1;

/// A cgroup was made.
pub const BORN: u32 = 1;
/// A cgroup was removed.
pub const DIED: u32 = 2;
/// A cgroup got another name (cgroup v1 only).
pub const RENAMED: u32 = 3;

/// The fixed part of an event; the path's bytes follow it, without a terminator, up to the record's end.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CgroupEvent {
    /// `cgroup->kn->id`: the inode number of the cgroup's directory.
    pub id: u64,
    pub kind: u32,
    /// `cgroup->root->hierarchy_id`: events of other hierarchies are dropped in the kernel, this is for the reader.
    pub hierarchy: u32,
}

const _: () = assert!(size_of::<CgroupEvent>() == 16);

/// Counters of the event stream, one per-CPU slot each. The agent compares what it read with what was sent.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupCount {
    /// Events seen by the kernel side in the watched hierarchy.
    Born = 0,
    Died = 1,
    Renamed = 2,
    /// Events for which the ring buffer had no room: the agent walks the hierarchy again.
    RingFull = 3,
}

impl CgroupCount {
    pub const ALL: [Self; 4] = [Self::Born, Self::Died, Self::Renamed, Self::RingFull];
}
