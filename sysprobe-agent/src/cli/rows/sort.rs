//! The sort keys of rows, and the number of each. Each table decides which of them it offers.

use clap::ValueEnum;
use sysprobe_common::vfs::Operation;

use super::Row;

/// What rows can be sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum)]
pub enum SortKey {
    /// Time on CPU.
    #[default]
    Cpu,
    /// Share of the quota's periods in which the workload was throttled.
    Throttled,
    /// Median wait for a CPU.
    P50,
    /// 99th percentile of the wait for a CPU.
    P99,
    /// Longest wait for a CPU.
    Max,
    /// Voluntary and involuntary context switches.
    Switches,
    /// Reads per second.
    Read,
    /// Bytes read per second.
    ReadBytes,
    /// 99th percentile of the read latency.
    Read99,
    /// Writes per second.
    Write,
    /// Bytes written per second.
    WriteBytes,
    /// 99th percentile of the write latency.
    Write99,
    /// Calls of fsync, fdatasync, msync and the like per second.
    Fsync,
    /// Median fsync latency.
    Fsync50,
    /// 99th percentile of the fsync latency.
    Fsync99,
    /// Files opened per second.
    Open,
    /// Files, links and other names created per second.
    Create,
    /// Names removed per second.
    Unlink,
    /// Major page faults per second.
    Fault,
    /// 99th percentile of the latency of major page faults.
    Fault99,
    /// Requests to block devices per second.
    Disk,
    /// Bytes of requests to block devices per second.
    DiskBytes,
    /// 99th percentile of the latency of requests to block devices.
    Disk99,
    /// Failed storage operations per second.
    Errors,
    /// Payload received per second.
    ReceivedBytes,
    /// Payload sent per second.
    SentBytes,
    /// TCP segments sent per second.
    Segments,
    /// Share of TCP segments that were retransmitted.
    Retransmitted,
    /// Median smoothed round-trip time of TCP.
    Srtt50,
    /// 99th percentile of the smoothed round-trip time of TCP.
    Srtt99,
    /// 99th percentile of the TCP connect latency.
    Connect99,
    /// Failed connection attempts per second.
    Failures,
    /// TCP resets sent and received per second.
    Resets,
    /// Packets dropped by the kernel per second.
    Drops,
    /// Established TCP sockets.
    Sockets,
    /// How full the fullest accept queue is.
    AcceptQueue,
    /// SYNs and final ACKs dropped by listening sockets per second.
    AcceptDrops,
    /// Arrivals timed to their reader per second.
    Received,
    /// Median time from the network device to the reader.
    Received50,
    /// 99th percentile of the time from the network device to the reader.
    Received99,
    /// Longest time from the network device to the reader.
    ReceivedMax,
    /// Namespace, pod and container.
    Name,
}

impl Row {
    pub(crate) fn number(&self, key: SortKey) -> Option<f64> {
        match key {
            SortKey::Cpu => self.cpu_cores,
            SortKey::Throttled => self.throttled_ratio,
            SortKey::P50 => self.wait_p50,
            SortKey::P99 => self.wait_p99,
            SortKey::Max => self.wait_max,
            SortKey::Switches => self.switch_rate(),
            SortKey::Read => self.operation(Operation::Read)?.rate,
            SortKey::ReadBytes => self.operation(Operation::Read)?.byte_rate,
            SortKey::Read99 => self.operation(Operation::Read)?.p99,
            SortKey::Write => self.operation(Operation::Write)?.rate,
            SortKey::WriteBytes => self.operation(Operation::Write)?.byte_rate,
            SortKey::Write99 => self.operation(Operation::Write)?.p99,
            SortKey::Fsync => self.operation(Operation::Fsync)?.rate,
            SortKey::Fsync50 => self.operation(Operation::Fsync)?.p50,
            SortKey::Fsync99 => self.operation(Operation::Fsync)?.p99,
            SortKey::Open => self.operation(Operation::Open)?.rate,
            SortKey::Create => self.operation(Operation::Create)?.rate,
            SortKey::Unlink => self.operation(Operation::Unlink)?.rate,
            SortKey::Fault => self.operation(Operation::Fault)?.rate,
            SortKey::Fault99 => self.operation(Operation::Fault)?.p99,
            SortKey::Disk => self.requests()?.rate,
            SortKey::DiskBytes => self.requests()?.byte_rate,
            SortKey::Disk99 => self.requests()?.p99,
            SortKey::Errors => self.storage?.error_rate(),
            SortKey::ReceivedBytes => self.network?.received_rate,
            SortKey::SentBytes => self.network?.sent_rate,
            SortKey::Drops => self.network?.drop_rate,
            SortKey::Segments => self.tcp()?.segment_rate,
            SortKey::Retransmitted => self.tcp()?.retransmitted_ratio,
            SortKey::Srtt50 => self.tcp()?.srtt_p50,
            SortKey::Srtt99 => self.tcp()?.srtt_p99,
            SortKey::Connect99 => self.tcp()?.connect_p99,
            SortKey::Failures => self.tcp()?.failure_rate,
            SortKey::Resets => self.tcp()?.reset_rate,
            SortKey::Sockets => self.tcp()?.established.map(|count| count as f64),
            SortKey::AcceptQueue => self.tcp()?.accept_queue,
            SortKey::AcceptDrops => self.tcp()?.accept_drop_rate,
            SortKey::Received => self.received?.rate,
            SortKey::Received50 => self.received?.p50,
            SortKey::Received99 => self.received?.p99,
            SortKey::ReceivedMax => self.received?.max,
            SortKey::Name => None,
        }
    }
}
