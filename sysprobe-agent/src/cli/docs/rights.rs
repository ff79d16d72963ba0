//! The page of rights: the table of capabilities, and the other privileges that the agent's pod needs or
//! never needs.

use std::io::{self, Write};

use crate::host::RIGHTS;

const HEAD: &str = "# Rights

<!-- Made from the table in `sysprobe-agent/src/host/privilege.rs` by `cargo xtask docs`; edit that.
The text outside the table is in `sysprobe-agent/src/cli/docs/rights.rs`. -->

This page lists the privileges that the agent needs on a node, and what does not work without each.
`sysprobe check` prints what is missing; run it with the agent's own privileges, for example by
`kubectl exec`.

## Capabilities

| capability | kernels | what for | without it |
|---|---|---|---|
";

const REST: &str = "
The agent needs the first two, and `CAP_SYS_RESOURCE` before Linux 5.11. The other rows are
optional. `CAP_SYS_ADMIN` includes `CAP_BPF` and `CAP_PERFMON`, but do not grant it for that.

**Kprobes** are used only where there is no better hook: before Linux 5.13, for `net` before 6.3
where `fentry` does not work (as on arm64), and on kernels without BTF of their own. Linux itself
lets a process with `CAP_PERFMON` attach them. Debian's kernels ask for `CAP_SYS_ADMIN` while
`kernel.perf_event_paranoid` is above 2, and their default is 3. Setting it to 2 on the node is
enough, so the agent does not need the capability.

**`CAP_DAC_READ_SEARCH`** matters only on nodes where users other than root manage cgroups of their
own (delegation, such as that of systemd to a user's session) and have removed the right to read
them for all others. (`CAP_DAC_OVERRIDE` includes this capability, and allows more.)

The agent uses no other capability. A test (`cargo xtask test rights`) runs the agent as root
without each of the others in turn, and finds the same domains in the same attach modes. On the
oldest and newest kernels it leaves out all of them at once, with the same result.

```yaml
securityContext:
  runAsUser: 0
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
    add: [BPF, PERFMON] # and SYS_RESOURCE, if nodes have kernels before 5.11
```

## What else a pod needs

- **User 0.** Kubernetes gives added capabilities to user 0 only. Another user would need file
  capabilities, which `allowPrivilegeEscalation: false` (`no_new_privs`) disables, or ambient
  capabilities, which Kubernetes cannot set. The files of container runtimes and service account
  tokens belong to root, so user 0 needs no capability to read them.
- **The Pod Security level `privileged`** for the namespace. The levels `baseline` and `restricted`
  forbid the host's PID namespace, volumes of the type `hostPath`, and these capabilities. The level
  only allows such pods; the agent's container itself is not privileged.
- **The host's PID namespace** (`hostPID: true`). BPF iterators see only the agent's PID namespace.
  They find tasks and sockets that are older than the agent, and count threads for the load
  averages. With `hostPID: true`, `sysprobe check` prints `processes  all of the host`.
- **The host's cgroup file systems**: mount `/sys/fs/cgroup` as a read-only `hostPath` anywhere in
  the container, and set `cgroup_root` (or `--cgroup-root`) to that path. The container's own
  `/sys/fs/cgroup` shows only its part of the hierarchy. A read-only mount does not make the mounts
  below it read-only, such as the hierarchies of cgroup v1; `recursiveReadOnly` does (Kubernetes
  1.31, containerd 2.0, Linux 5.12). Without it, user 0 could write there; the agent opens no file
  there for writing.
- **The kernel's BTF**, which every container sees in its own `/sys/kernel/btf/vmlinux`. Nothing has
  to be mounted.
- **A writable directory for the local socket**: `/run/sysprobe`. With a `hostPath`, commands on the
  node can ask the agent; an `emptyDir` is enough for `kubectl exec`.
- **A source of pod names**, at least one of these (`[pods]` in the configuration selects them):
  - the API server: a service account that may `get`, `list` and `watch` `pods`, and `NODE_NAME` in
    the environment. This is the chart's default.
  - the kubelet: a service account that may `get` `nodes/pods` (`nodes/proxy` before Kubernetes
    1.33)
  - the container runtime's socket, as a `hostPath`
  - the runtime's state files, read-only. For containerd, mount only
    `/run/containerd/io.containerd.runtime.v2.task`. The directory above it contains the socket, and
    a process can connect to a socket through a read-only mount, too. The containers' own file
    systems are mounted below the directory that you mount: `recursiveReadOnly` makes these
    read-only, too.
- **The node's network devices**, only for the links in `sysprobe use`: `/sys/class/net` and
  `/sys/devices` as read-only `hostPath`s in the same relative position as on the host (such as
  `/host/sys/class/net` and `/host/sys/devices`), because the first has symlinks into the second.
  Without them, `sysprobe use` cannot tell which links leave the node.
- **The system calls `bpf` and `perf_event_open`**, where a seccomp profile is on. `RuntimeDefault`
  allows them to a process with `CAP_BPF` and `CAP_PERFMON` in containerd from 1.6.9 on
  ([#7301](https://github.com/containerd/containerd/pull/7301)), and in Docker from 23.0 on
  ([#43987](https://github.com/moby/moby/pull/43987)). The profile of CRI-O and Podman allows `bpf`
  likewise. It allows `perf_event_open` without `CAP_SYS_ADMIN` only since
  [#424](https://github.com/containers/container-libs/pull/424) (2025). Older runtimes allow both
  only with `CAP_SYS_ADMIN`: use a profile of your own, or `Unconfined`. Only kprobes need
  `perf_event_open`. Where SELinux is enforced, the default SELinux type of containers may not use
  `bpf`; `spc_t` may (not tested).
- **A kernel that is not in lockdown mode `confidentiality`** (`/sys/kernel/security/lockdown`). In
  that mode, BPF programs may not read kernel memory, and most domains are off
  ([troubleshooting](troubleshooting.md#the-kernel-refuses-a-program)).

## What the agent never needs

[The manifest](../deploy/kustomize/base/sysprobe.yaml) shows what the chart asks for. `cargo xtask
test rights` compares its capabilities with the table, and `cargo xtask e2e chart` checks the
capabilities and writable mounts of the running container. The agent needs none of these:

- `privileged: true`, or a capability that is not in the table.
- The host's network namespace (`hostNetwork`): the programs see the whole node without it.
- The host's IPC and UTS namespaces, devices, `/dev`, debugfs, tracefs, the BPF file system, kernel
  modules or headers.
- Write access to its own root file system, or to any path of the host other than the socket's
  directory.
- Permission to change anything in Kubernetes, or to read anything other than pods. (Exception:
  before Kubernetes 1.33 the source `kubelet` needs `nodes/proxy`, which allows much more.)
";

pub(super) fn write(out: &mut impl Write) -> io::Result<()> {
    out.write_all(HEAD.as_bytes())?;
    for right in RIGHTS {
        writeln!(
            out,
            "| `{}` | {} | to {} | {} |",
            right.capability, right.kernels, right.does, right.without
        )?;
    }
    out.write_all(REST.as_bytes())
}
