//! Which connections a listener has, and which one gives way when there are too many.
//!
//! Before the first request of a connection is read, only its peer's address is known. So there are two
//! stages. A new connection waits in the *room*, where it costs a descriptor and little else, and where
//! probes are answered at once. It takes one of the *places* when it asks for something large, and keeps it
//! between requests. A connection in the room pushes out only others in the room, so silent connections never
//! end one that is being answered, or has been. In either stage, the address with the most connections gives
//! way first.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::{AbortHandle, Id};
use tokio::time::Instant;
use tracing::debug;

use super::peer::{Activity, Peer, Standing};

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Connections that have not asked for anything large.
    pub(super) room: usize,
    pub(super) places: usize,
    /// Places of one address.
    pub(super) per_address: usize,
}

impl Limits {
    /// At 2,000 connections a second from one address, a client has 128 ms for its request, which usually
    /// comes with the handshake's last packet. Each place holds up to twice
    /// [`SEND_BUFFER`](super::server::SEND_BUFFER) of kernel memory: 24 MiB in all. A quarter of the places
    /// is reserved for others than the busiest address.
    pub(super) const PORT: Self = Self { room: 256, places: 96, per_address: 72 };
    /// Only root can connect: commands, each for its own answer.
    pub(super) const SOCKET: Self = Self { room: 32, places: 16, per_address: 16 };
}

#[derive(Debug)]
struct Member {
    address: Option<IpAddr>,
    has_place: bool,
    peer: Arc<Peer>,
    task: AbortHandle,
}

/// The open connections of one listener.
#[derive(Debug)]
pub(super) struct Places {
    limits: Limits,
    members: Mutex<HashMap<Id, Member>>,
}

impl Places {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, members: Mutex::default() }
    }

    fn members(&self) -> MutexGuard<'_, HashMap<Id, Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is room for a new connection, or a silent one can make room. If not, all that wait are
    /// new as well: each is read once before another may push it out, because its request may have come with
    /// it.
    pub(super) fn have_room(&self) -> bool {
        let members = self.members();
        let waiting = || members.values().filter(|member| !member.has_place);
        let now = Instant::now();
        let can_leave = |member: &Member| member.peer.standing(now).activity != Activity::Busy;
        waiting().count() < self.limits.room || waiting().any(can_leave)
    }

    /// Takes in a new connection. Its task is spawned under the lock, so it is known before it asks for a
    /// place.
    pub(super) fn admit(
        &self,
        address: Option<IpAddr>,
        peer: Arc<Peer>,
        spawn: impl FnOnce() -> AbortHandle,
    ) {
        let mut members = self.members();
        let now = Instant::now();
        if members.values().filter(|member| !member.has_place).count() >= self.limits.room {
            let leave = first_to_leave_the_room(of(&members, false, now));
            // Several at a time, so that a flood does not cost a look at all of them for each new connection.
            for victim in leave.into_iter().take((self.limits.room / 8).max(1)) {
                close(&mut members, victim, now);
            }
        }
        let task = spawn();
        members.insert(task.id(), Member { address, has_place: false, peer, task });
    }

    /// Takes a place for a connection that asks for something large; false if there is none.
    pub(super) fn take(&self, id: Id) -> bool {
        let mut members = self.members();
        let now = Instant::now();
        let Some(member) = members.get(&id) else { return false };
        if member.has_place {
            return true;
        }
        let taken = of(&members, true, now);
        match self.limits.room_for(member.address, &taken) {
            Room::Free => {}
            Room::InsteadOf(victim) => {
                if !close(&mut members, victim, now) {
                    return false;
                }
            }
            Room::None => return false,
        }
        if let Some(member) = members.get_mut(&id) {
            member.has_place = true;
        }
        true
    }

    pub(super) fn forget(&self, id: Id) {
        self.members().remove(&id);
    }

    /// Aborts the connections that `closes` has closed.
    pub(super) fn close_where(&self, closes: impl Fn(&Peer) -> bool) {
        self.members().retain(|_, member| {
            let closes = closes(&member.peer);
            if closes {
                debug!("A connection is closed: it asks for nothing, or takes too long.");
                member.task.abort();
            }
            !closes
        });
    }
}

/// A connection that may be chosen to give way.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    id: Id,
    address: Option<IpAddr>,
    standing: Standing,
}

fn of(members: &HashMap<Id, Member>, has_place: bool, now: Instant) -> Vec<Candidate> {
    let chosen = members.iter().filter(|(_, member)| member.has_place == has_place);
    let candidate = |(id, member): (&Id, &Member)| Candidate {
        id: *id,
        address: member.address,
        standing: member.peer.standing(now),
    };
    chosen.map(candidate).collect()
}

/// False if its activity has changed meanwhile.
fn close(members: &mut HashMap<Id, Member>, victim: Candidate, now: Instant) -> bool {
    let Some(member) = members.get(&victim.id) else { return false };
    let closes = member.peer.close_while(victim.standing.activity, now);
    if closes {
        debug!(address = ?member.address, activity = ?victim.standing.activity, "A connection gives way.");
        member.task.abort();
        members.remove(&victim.id);
    }
    closes
}

fn count_by_address(candidates: &[Candidate]) -> HashMap<Option<IpAddr>, usize> {
    let mut counts = HashMap::new();
    for candidate in candidates {
        *counts.entry(candidate.address).or_default() += 1;
    }
    counts
}

/// The connections of the address with the most, the longest silent first.
fn first_to_leave_the_room(waiting: Vec<Candidate>) -> Vec<Candidate> {
    let counts = count_by_address(&waiting);
    let mut leave = waiting;
    leave.retain(|candidate| candidate.standing.activity != Activity::Busy);
    let most = leave.iter().map(|candidate| counts.get(&candidate.address)).max().flatten();
    leave.retain(|candidate| counts.get(&candidate.address) == most);
    leave.sort_unstable_by_key(|candidate| candidate.standing.since);
    leave
}

/// Whether there is a place for one more.
#[derive(Clone, Copy, Debug)]
enum Room {
    Free,
    InsteadOf(Candidate),
    None,
}

impl Limits {
    /// A stalled reader gives way unless the new connection's address has more places. A connection that is
    /// kept between two scrapes gives way to an address with fewer, and one that is being answered to an
    /// address with at least two fewer. The address with the most gives way first. Of its connections,
    /// stalled ones come first, then silent ones, then those with the fewest answers.
    fn room_for(self, address: Option<IpAddr>, taken: &[Candidate]) -> Room {
        let counts = count_by_address(taken);
        let count = |address| counts.get(&address).copied().unwrap_or_default();
        let own = count(address);
        let is_at_its_limit = own >= self.per_address;
        if taken.len() < self.places && !is_at_its_limit {
            return Room::Free;
        }
        let may_give_way = |candidate: &&Candidate| {
            let theirs = count(candidate.address);
            let gives_way = match candidate.standing.activity {
                Activity::Stalled => theirs >= own,
                Activity::Silent => theirs > own,
                Activity::Busy => theirs > own + 1,
            };
            gives_way && (!is_at_its_limit || candidate.address == address)
        };
        let first = taken.iter().filter(may_give_way).min_by_key(|candidate| {
            let Standing { activity, answers, since } = candidate.standing;
            (Reverse(count(candidate.address)), activity, answers, since)
        });
        first.map_or(Room::None, |candidate| Room::InsteadOf(*candidate))
    }
}

#[cfg(test)]
mod tests;
