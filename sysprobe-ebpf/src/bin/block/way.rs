//! A request's way: submitted, given to the driver, done.

use aya_ebpf::btf_maps::HashMap;
use aya_ebpf::macros::btf_map;
use sysprobe_common::block::{BlockLoss, Key, Request as Remembered};
use sysprobe_ebpf::clock::now;
use sysprobe_ebpf::kernel::Object;
use sysprobe_ebpf::operation::Done;
use sysprobe_ebpf::settings;

use crate::booking::{book, lose};
use crate::request::{self, Request, takes_steps};
use crate::{booking, owner};

settings!(OFF_BIO_SIZE);

/// By the request's address; by its bio's for one that may be done in steps, since such a request
/// is merged with no other and a kernel thread inserts it. Preallocated, and no LRU: an LRU hash
/// reserves free entries for each CPU and evicts requests in flight to refill them. The agent sizes
/// it and removes requests whose end was not seen.
#[btf_map]
static BLOCK_IN_FLIGHT: HashMap<u64, Remembered, 1> = HashMap::new();

/// A bio gets a request, in the context of the task that submits it. Only those that take steps are
/// remembered from here.
#[inline(always)]
pub(crate) fn begun(bio: impl Object) {
    if bio.address() == 0 || !takes_steps(bio) {
        return;
    }
    let is_empty = bio.u32(&OFF_BIO_SIZE).unwrap_or(0) == 0;
    remember(bio.address(), &Remembered { flush: u32::from(is_empty), begun: now(), ..submitted(bio) });
}

/// A request is put in a queue, by the task that submits it: also where that is done late, because several
/// are submitted together, since the task does it before it sleeps.
#[inline(always)]
pub(crate) fn queued(object: impl Object) {
    let Some(request) = request::read(object) else { return };
    let (started, now) = (request.started(), now());
    // One that the driver refused for now is put there again, by any task. Without a stamp that cannot be
    // told from a new one.
    if in_steps(&request).is_none() && (!is_stamp(started, now) || whole(&request, started).is_none()) {
        submit(&request, started, now, 0);
    }
}

/// The driver gets a request. One that was in no queue is submitted here.
#[inline(always)]
pub(crate) fn issued(object: impl Object) {
    let Some(request) = request::read(object) else { return };
    if in_steps(&request).is_some() {
        return;
    }
    let (started, now) = (request.started(), now());
    match whole(&request, started) {
        Some(remembered) if remembered.issued == 0 => remembered.issued = now,
        Some(_) if is_stamp(started, now) => {}
        _ => submit(&request, started, now, now),
    }
}

/// A queue whose statistics are off (`queue/iostats`) stamps nothing: then there is 0, or the stamp of a
/// request long ago.
#[inline(always)]
const fn is_stamp(started: u64, now: u64) -> bool {
    /// No task is that slow between a request's beginning and its way to a queue or the driver.
    const MINUTE: u64 = 60_000_000_000;
    // A machine that has just started has no long ago.
    started != 0 && started.saturating_add(MINUTE) > now
}

/// A request has become a part of another, which keeps its own owner, and takes over the stamp of the older
/// of both.
#[inline(always)]
pub(crate) fn merged(object: impl Object) {
    forget(object.address());
}

/// A part of a request is done, usually all of it.
#[inline(always)]
pub(crate) fn done(object: impl Object, failed: bool, bytes: u32) {
    let Some(request) = request::read(object) else { return };
    let ends = request.ends_with(bytes);
    if let Some(remembered) = in_steps(&request) {
        add(remembered, failed, bytes, ends);
        if ends && !request.is_step() {
            // How long its data waited for the flush before it is the device's time, and not apart from it.
            end(&request, remembered, request.bio.address(), 0);
        }
    } else if let Some(remembered) = whole(&request, request.started()) {
        add(remembered, failed, bytes, ends);
        if ends {
            end(&request, remembered, request.object.address(), remembered.issued);
        }
    } else if ends {
        lose(BlockLoss::SubmissionMissed);
    }
}

/// A driver may say that nothing is done yet and that there was an error, only to try again.
#[inline(always)]
fn add(remembered: &mut Remembered, failed: bool, bytes: u32, ends: bool) {
    if !failed {
        remembered.bytes += u64::from(bytes);
    } else if ends || bytes != 0 {
        remembered.failed = 1;
    }
}

#[inline(always)]
fn end<T: Object>(request: &Request<T>, remembered: &Remembered, name: u64, issued: u64) {
    // One that was merged with an older one has begun when that did.
    let (started, now) = (request.started(), now());
    let is_older = started < remembered.started && is_stamp(started, now);
    let begun = if is_older { started } else { remembered.begun };
    let done =
        Done { bytes: remembered.bytes, failed: remembered.failed != 0, took: booking::since(begun, now) };
    let (cgroup, operation) = (remembered.cgroup, request.operation(remembered.flush != 0));
    forget(name);
    let Some(disk) = request.disk() else { return };
    let key = Key { cgroup, device: request::device(disk), pad: 0 };
    book(key, disk, operation, &done, issued.saturating_sub(begun));
}

#[inline(always)]
fn submit<T: Object>(request: &Request<T>, started: u64, now: u64, issued: u64) {
    let begun = if is_stamp(started, now) { started } else { now };
    remember(request.object.address(), &Remembered { begun, started, issued, ..submitted(request.bio) });
}

#[inline(always)]
fn submitted(bio: impl Object) -> Remembered {
    Remembered { cgroup: owner::of(bio), begun: 0, started: 0, issued: 0, bytes: 0, failed: 0, flush: 0 }
}

/// What is remembered, from `begun` on, of a request that may be done in steps. A clone of one for a device
/// below is none.
#[inline(always)]
fn in_steps<T: Object>(request: &Request<T>) -> Option<&'static mut Remembered> {
    if takes_steps(request.bio) { find(request.bio.address()) } else { None }
}

/// What is remembered of any other request, and not of the one before it in the same place.
#[inline(always)]
fn whole<T: Object>(request: &Request<T>, started: u64) -> Option<&'static mut Remembered> {
    find(request.object.address()).filter(|remembered| started <= remembered.started)
}

#[inline(always)]
fn find(name: u64) -> Option<&'static mut Remembered> {
    let remembered = BLOCK_IN_FLIGHT.get_ptr_mut(name)?;
    // SAFETY: a request is in one place at a time, so no two programs use its entry at once.
    Some(unsafe { &mut *remembered })
}

#[inline(always)]
fn remember(name: u64, request: &Remembered) {
    if BLOCK_IN_FLIGHT.insert(name, request, 0).is_err() {
        lose(BlockLoss::InFlightFull);
    }
}

#[inline(always)]
#[expect(clippy::let_underscore_must_use, reason = "it may not be there")]
fn forget(name: u64) {
    let _ = BLOCK_IN_FLIGHT.remove(name);
}
