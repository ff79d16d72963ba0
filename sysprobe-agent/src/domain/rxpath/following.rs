//! Tells the BPF programs which packets to follow: writes their control words, and detaches them from their
//! tracepoints while they follow none.

use std::time::Instant;

use sysprobe_common::rxpath::{Phase, ShareWord};
use tracing::{debug, warn};

use super::share::Share;
use super::slices::{SLICE_BITS, SLICED_ABOVE, Slices};
use crate::bpf::{LoadError, Loaded, MappedArray};
use crate::host;
use crate::plan::Plan;
use crate::probe::ProgramSet;

/// Tracepoints at which packets are noted.
const DEVICES: [&str; 5] = [
    "netif_rx",
    "netif_receive_skb",
    "netif_receive_skb_entry",
    "netif_receive_skb_list_entry",
    "napi_gro_receive_entry",
];
/// Tracepoints at which packets are followed to their readers.
const READERS: [&str; 4] = ["sk_data_ready", "tcp_probe", "tcp_rcv_space_adjust", "sock_recv_length"];

pub(super) struct Following {
    share: Share,
    slices: Slices,
    words: MappedArray<u64>,
    waiting: MappedArray<u64>,
    /// The number of waiting sockets when packets were last noted again.
    waited: u64,
    phase: Phase,
    /// Whether the last attempt to change the phase failed.
    has_failed: bool,
    /// Programs by name.
    devices: Vec<&'static str>,
    readers: Vec<&'static str>,
}

impl Following {
    /// Has to be called before the programs are attached.
    pub(super) fn new(loaded: &mut Loaded, set: &ProgramSet, plan: &Plan) -> Result<Self, LoadError> {
        let mut following = Self {
            share: Share::new(plan.rx_follow_one_in, u64::from(plan.online_cpus)),
            slices: Slices::new(),
            words: loaded.map_array("RXPATH_SHARE")?,
            waiting: loaded.map_array("RXPATH_WAITING")?,
            waited: 0,
            phase: Phase::Noting,
            has_failed: false,
            devices: set.on_tracepoints(&DEVICES),
            readers: set.on_tracepoints(&READERS),
        };
        let bits = following.share.bits(Instant::now(), host::node::packets_received);
        following.tell(bits);
        Ok(following)
    }

    /// Follows all packets for a while.
    pub(super) fn follow_all(&mut self, until: Instant) {
        self.share.follow_all(until);
    }

    /// Adapts the share of followed packets to the load.
    pub(super) fn update(&mut self, loaded: &mut Loaded, now: Instant) {
        let bits = self.share.bits(now, host::node::packets_received);
        let waiting = self.waiting.read(0).unwrap_or(0);
        let waits = || waiting.wrapping_sub(self.waited).cast_signed() > 0;
        let phase = self.slices.look(now, bits, waits);
        if phase != self.phase {
            let turned = self.turn_to(phase, loaded);
            // It is tried again at each tick, and logged once.
            if let Err(error) = &turned
                && !self.has_failed
            {
                warn!(%error, "The programs that follow packets could not be reattached.");
            }
            self.has_failed = turned.is_err();
        }
        self.tell(bits);
    }

    /// The share of the packets that is followed.
    pub(super) fn ratio(&self) -> f64 {
        let bits = self.words.read(ShareWord::WeightBits as usize);
        0.5_f64.powi(bits.and_then(|bits| i32::try_from(bits).ok()).unwrap_or(0))
    }

    /// The readers' programs are attached before any packet is noted for them.
    fn turn_to(&mut self, phase: Phase, loaded: &mut Loaded) -> Result<(), LoadError> {
        if phase == Phase::Noting {
            self.write(ShareWord::Begun, host::monotonic_ns());
            self.waited = self.waiting.read(0).unwrap_or(0);
        }
        if self.phase == Phase::Paused {
            self.write(ShareWord::Since, host::monotonic_ns());
            loaded.attach_again(&self.readers)?;
        }
        self.write(ShareWord::Phase, phase as u64);
        match phase {
            Phase::Noting => loaded.attach_again(&self.devices)?,
            Phase::Reading => loaded.detach(&self.devices),
            Phase::Paused => loaded.detach(&self.readers),
        }
        self.phase = phase;
        Ok(())
    }

    fn tell(&mut self, bits: u32) {
        let by_hash = if bits > SLICED_ABOVE { bits - SLICE_BITS } else { bits };
        if self.words.read(ShareWord::WeightBits as usize) != Some(bits.into()) {
            debug!(one_in = 1 << bits, "Packets are followed.");
        }
        let mut words = [(ShareWord::WeightBits, bits), (ShareWord::Bits, by_hash)];
        // While the weight says that all packets are followed, one that is not selected counts as lost.
        if bits == 0 {
            words.reverse();
        }
        for (word, value) in words {
            self.write(word, value.into());
        }
    }

    fn write(&mut self, word: ShareWord, value: u64) {
        if self.words.read(word as usize) != Some(value) {
            self.words.write(word as usize, value);
        }
    }
}
