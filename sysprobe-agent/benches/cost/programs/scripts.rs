//! The work that makes programs run: for each hook one script, whatever the domain. A domain with other hooks
//! adds a row to [`Script::of_hook`] and, where none fits, a script and an act.

use std::path::Path;

use anyhow::Result;
use sysprobe_agent::probe::{Hook, ProgramSet};

use super::acts::{Act, AllTasks, Maker, Mover, Renamer, Threads, on_demand};
use super::cast::Cast;
use super::disk::Disk;
use super::limits::{Reclaimed, Throttled};
use super::network::{Connections, Datagrams, Echo, Flood, Resets, SocketScan};
use super::storage::{Keeper, Reader};
use crate::ring::Ring;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    /// A byte goes to another process on the same CPU and back.
    Switch,
    /// A thread begins, ends and is freed.
    Thread,
    /// A sleeping process is moved to another cgroup.
    Move,
    /// In turns, a cgroup is made and removed.
    Cgroup,
    /// A cgroup is renamed.
    Rename,
    /// All tasks are gone over, which are known already.
    Iterate,
    /// A file in memory is read.
    Read,
    /// Everything else that is counted is done to files in memory once.
    Storage,
    /// A block of a device is read, and the device is flushed.
    Disk,
    /// A connection is made, a byte goes from one end to the other, and both are closed.
    Connection,
    /// A message goes through a connection that stays open, and back.
    Echo,
    /// A connection is closed with something unread, which resets it.
    Reset,
    /// A datagram of each version of IP is sent and received.
    Datagram,
    /// A datagram is sent to a socket that has no room for it.
    Flood,
    /// All sockets are gone over.
    SocketScan,
    /// A process uses up its quota.
    Throttle,
    /// Memory is looked for in a cgroup.
    Reclaim,
    /// A process other than the agent runs what is run on demand, on its own CPU.
    Demand,
}

/// How much of a script is one batch, and how many batches are played; the first ones are not measured.
#[derive(Clone, Copy)]
pub(crate) struct Dose {
    pub(crate) actions: u32,
    pub(crate) warm_up: u32,
    pub(crate) batches: u32,
}

/// What a script may need.
pub(crate) struct Scene<'a> {
    /// The key hierarchy's root.
    pub(crate) root: &'a Path,
    pub(crate) has_v1: bool,
    pub(crate) cpu: u32,
    pub(crate) cast: &'a Cast,
}

/// What the script of that name does, as functions under the newest of their names.
const STORAGE: [&str; 20] = [
    "vfs_readv",
    "vfs_write",
    "vfs_writev",
    "vfs_fsync_range",
    "__x64_sys_fsync",
    "__x64_sys_fdatasync",
    "__x64_sys_sync_file_range",
    "splice_file_to_pipe",
    "sync_file_range",
    "do_splice",
    "do_splice_direct",
    "vfs_copy_file_range",
    "do_file_open",
    "filename_mkdirat",
    "filename_mknodat",
    "filename_linkat",
    "filename_symlinkat",
    "filename_renameat2",
    "filename_unlinkat",
    "filename_rmdir",
];

impl Script {
    const ALL: [Self; 18] = [
        Self::Switch,
        Self::Thread,
        Self::Move,
        Self::Cgroup,
        Self::Rename,
        Self::Iterate,
        Self::Read,
        Self::Storage,
        Self::Disk,
        Self::Connection,
        Self::Echo,
        Self::Reset,
        Self::Datagram,
        Self::Flood,
        Self::SocketScan,
        Self::Throttle,
        Self::Reclaim,
        Self::Demand,
    ];

    /// What makes a hook's programs run.
    pub(crate) fn of_hook(hook: Hook) -> Option<Self> {
        match hook {
            Hook::OnDemand => return Some(Self::Demand),
            Hook::TaskIterator | Hook::TaskScan => return Some(Self::Iterate),
            Hook::SocketIterator(_) | Hook::FileScan => return Some(Self::SocketScan),
            _ => {}
        }
        Some(match hook.target()?.name() {
            "sched_switch" | "rcu_note_context_switch" => Self::Switch,
            "task_newtask" | "wake_up_new_task" | "sched_process_free" | "free_task"
            | "sched_process_exit" | "do_exit" => Self::Thread,
            "cgroup_attach_task" => Self::Move,
            "cgroup_mkdir" | "kernfs_activate" | "cgroup_rmdir" | "kernfs_remove" => Self::Cgroup,
            "cgroup_rename" => Self::Rename,
            "sys_enter" | "sys_exit" | "vfs_read" => Self::Read,
            "block_getrq" | "block_rq_insert" | "block_rq_issue" | "block_rq_complete" => Self::Disk,
            "inet_sock_set_state"
            | "tcp_destroy_sock"
            | "tcp_probe"
            | "inet_sk_state_store"
            | "inet_sk_set_state"
            | "tcp_v4_destroy_sock"
            | "inet_sock_destruct"
            | "tcp_rcv_established"
            | "tcp_conn_request"
            | "tcp_v4_syn_recv_sock" => Self::Connection,
            "tcp_rcv_space_adjust" => Self::Echo,
            // On the loopback each datagram is delivered in a softirq.
            "softirq_entry"
            | "softirq_exit"
            | "netif_rx"
            | "netif_receive_skb"
            | "ip_rcv_core"
            | "ip6_rcv_core"
            | "__udp_enqueue_schedule_skb"
            | "skb_consume_udp"
            | "sk_data_ready"
            | "sock_def_readable"
            | "sock_send_length"
            | "sock_recv_length"
            | "inet_sendmsg"
            | "inet_recvmsg"
            | "inet6_sendmsg"
            | "inet6_recvmsg"
            | "udp_sendmsg"
            | "udp_recvmsg"
            | "udpv6_sendmsg"
            | "udpv6_recvmsg" => Self::Datagram,
            "kfree_skb" | "udp_fail_queue_rcv_skb" => Self::Flood,
            "tcp_send_reset" | "tcp_receive_reset" => Self::Reset,
            "tg_throttle_down" | "unthrottle_cfs_rq" | "tg_unthrottle_up" => Self::Throttle,
            "mm_vmscan_memcg_reclaim_begin" | "mm_vmscan_memcg_reclaim_end" => Self::Reclaim,
            name if STORAGE.contains(&name) => Self::Storage,
            _ => return None,
        })
    }

    /// The scripts that an attach mode's programs want.
    pub(crate) fn of(set: &ProgramSet) -> impl Iterator<Item = Self> {
        let wanted =
            |script: &Self| set.programs.iter().any(|program| Self::of_hook(program.hook) == Some(*script));
        Self::ALL.into_iter().filter(wanted)
    }

    /// Whether programs may run long after the action that leads to it.
    pub(crate) const fn is_late(self) -> bool {
        matches!(self, Self::Thread)
    }

    /// Whether the kernel takes memory for what happens, now from one place and now from another, for many
    /// batches on end. What the program itself takes then shows in the cheapest batch only.
    pub(crate) const fn allocates(self) -> bool {
        matches!(self, Self::Thread)
    }

    /// What runs often is cheap and drowns in a busy machine's noise: `times` as many batches of it.
    pub(crate) const fn dose(self, times: u32) -> Dose {
        match self {
            Self::Switch | Self::Read => Dose { actions: 100, warm_up: 10, batches: 20 * times },
            Self::Storage
            | Self::Disk
            | Self::Connection
            | Self::Echo
            | Self::Reset
            | Self::Datagram
            | Self::Flood => Dose { actions: 10, warm_up: 10, batches: 20 * times },
            Self::Throttle | Self::Reclaim => Dose { actions: 5, warm_up: 3, batches: 20 },
            Self::Demand => Dose { actions: 50, warm_up: 3, batches: 20 * times },
            Self::Thread => Dose { actions: 10, warm_up: 3, batches: 40 },
            Self::Iterate | Self::SocketScan => Dose { actions: 1, warm_up: 3, batches: 20 },
            // Single runs of programs that interrupts do not spare, which a median passes over.
            Self::Move | Self::Cgroup | Self::Rename => Dose { actions: 1, warm_up: 6, batches: 40 },
        }
    }

    pub(crate) fn open(self, scene: &Scene<'_>) -> Result<Box<dyn Act>> {
        Ok(match self {
            Self::Switch => Box::new(Ring::pair()?),
            Self::Thread => Box::new(Threads),
            Self::Move => Box::new(Mover::new(scene.root)?),
            Self::Cgroup => Box::new(Maker::new(scene.root)),
            Self::Rename => Box::new(Renamer::new(scene)?),
            Self::Iterate => Box::new(AllTasks),
            Self::Read => Box::new(Reader::new()?),
            Self::Storage => Box::new(Keeper::new()?),
            Self::Disk => Box::new(Disk::new()?),
            Self::Connection => Box::new(Connections::new()?),
            Self::Echo => Box::new(Echo::new()?),
            Self::Reset => Box::new(Resets(Connections::new()?)),
            Self::Datagram => Box::new(Datagrams::new()?),
            Self::Flood => Box::new(Flood::new()?),
            Self::SocketScan => Box::new(SocketScan::new(scene.cpu)?),
            Self::Throttle => Box::new(Throttled::new(scene)?),
            Self::Reclaim => Box::new(Reclaimed::new(scene.root)?),
            Self::Demand => Box::new(on_demand(scene)?),
        })
    }
}
