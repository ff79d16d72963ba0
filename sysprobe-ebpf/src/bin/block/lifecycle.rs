//! The lifecycle of a request: submitted, issued to the driver, completed.

use aya_ebpf::btf_maps::HashMap;
use aya_ebpf::macros::btf_map;
use sysprobe_common::block::{BlockLoss, Key, Request as Remembered};
use sysprobe_ebpf::accumulate::Done;
use sysprobe_ebpf::clock::now;
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::Object;

use crate::accounting::{book, lose};
use crate::request::{self, Request, takes_steps};
use crate::{accounting, owner};

globals!(OFF_BIO_SIZE);

/// Requests in flight, by the request's address. One that may be done in steps is kept by its bio's address,
/// because a kernel thread inserts it and it is never merged. Preallocated, and no LRU: an LRU hash reserves
/// free entries for each CPU and evicts requests in flight to refill them. The agent sizes it and removes
/// requests whose end was missed.
#[btf_map]
static BLOCK_IN_FLIGHT: HashMap<u64, Remembered, 1> = HashMap::new();

/// A bio gets a request, in the context of the task that submits it. Only requests that may be done in steps
/// are recorded here.
#[inline(always)]
pub(crate) fn begun(bio: impl Object) {
    if bio.address() == 0 || !takes_steps(bio) {
        return;
    }
    let is_empty = bio.u32(&OFF_BIO_SIZE).unwrap_or(0) == 0;
    remember(bio.address(), &Remembered { flush: u32::from(is_empty), begun: now(), ..submitted(bio) });
}

/// The submitting task puts a request in a queue. A batch is submitted later, but still by the same task,
/// before it sleeps (`blk_plug`).
#[inline(always)]
pub(crate) fn queued(object: impl Object) {
    let Some(request) = request::read(object) else { return };
    let (started, now) = (request.started(), now());
    // A request that the driver refused or gave up is queued again, by any task: after a timeout, a minute
    // later. Without a timestamp it looks like a new one.
    if in_steps(&request).is_none() && (started == 0 || whole(&request, started).is_none()) {
        submit(&request, started, now, 0);
    }
}

/// The driver gets a request. One that was in no queue is recorded here.
#[inline(always)]
pub(crate) fn issued(object: impl Object) {
    let Some(request) = request::read(object) else { return };
    if in_steps(&request).is_some() {
        return;
    }
    let (started, now) = (request.started(), now());
    match whole(&request, started) {
        Some(remembered) if remembered.issued == 0 => remembered.issued = now,
        Some(_) if started != 0 => {}
        _ => submit(&request, started, now, now),
    }
}

/// Whether this is the kernel's timestamp of the request. A queue without statistics (`queue/iostats`) sets
/// none: the value is 0 then, or that of an old request.
#[inline(always)]
const fn is_stamp(started: u64, now: u64) -> bool {
    /// No request takes that long to reach a queue or the driver for the first time.
    const MINUTE: u64 = 60_000_000_000;
    // An addition, because a subtraction would underflow in the first minute after boot.
    started != 0 && started.saturating_add(MINUTE) > now
}

/// A request is merged into another one, which keeps its own owner and takes the older of the two timestamps.
#[inline(always)]
pub(crate) fn merged(object: impl Object) {
    forget(object.address());
}

/// A part of a request is complete, usually all of it.
#[inline(always)]
pub(crate) fn done(object: impl Object, failed: bool, bytes: u32) {
    let Some(request) = request::read(object) else { return };
    let ends = request.ends_with(bytes);
    if let Some(remembered) = in_steps(&request) {
        add(remembered, failed, bytes, ends);
        if ends && !request.is_step() {
            // Its data waited for the flush before it. That is the device's time and not queueing.
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

/// A driver may report an error with no bytes only to try again, which is not a failure.
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
    // A request that absorbed an older one began when that one did.
    let (started, now) = (request.started(), now());
    let is_older = started < remembered.started && is_stamp(started, now);
    let begun = if is_older { started } else { remembered.begun };
    let done =
        Done { bytes: remembered.bytes, failed: remembered.failed != 0, took: accounting::since(begun, now) };
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

/// The record, made by `begun`, of a request that may be done in steps. A clone of such a request for a lower
/// device has none.
#[inline(always)]
fn in_steps<T: Object>(request: &Request<T>) -> Option<&'static mut Remembered> {
    if takes_steps(request.bio) { find(request.bio.address()) } else { None }
}

/// The record of any other request, unless it belongs to an earlier request at the same address.
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
