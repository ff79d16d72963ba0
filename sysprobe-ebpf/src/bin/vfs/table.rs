//! The hooked VFS functions, and the positions of the arguments that programs use. Both objects generate
//! their programs from this table. The agent's table of probes has the functions' names in each kernel.

/// Passes the rows to macros: functions on a file, system calls on a descriptor, transfers between two files,
/// functions on a name in a directory, functions for a request of libaio, and parts of requests that are
/// counted elsewhere. Numbers are positions of arguments. After the arguments comes the result, a `long` or
/// an `int`.
macro_rules! functions {
    ($on_file:ident, $on_syscall:ident, $transfer:ident, $on_name:ident, $aio:ident, $part:ident) => {
        // proto: v5.10- `ssize_t vfs_read(struct file *, char *, size_t, loff_t *)`, likewise `vfs_write`,
        // `vfs_iter_*`
        // proto: v5.10- `ssize_t vfs_readv(struct file *, struct iovec *, unsigned long, loff_t *, rwf_t)`
        // proto: v5.10- `int vfs_fsync_range(struct file *, loff_t, loff_t, int datasync)`
        // proto: v5.10- `int sync_file_range(struct file *, loff_t, loff_t, unsigned int)`
        $on_file! {
            vfs_read_in vfs_read_out Read, file 0, long 4;
            vfs_readv_in vfs_readv_out Read, file 0, long 5;
            vfs_iread_in vfs_iread_out Read, file 0, long 4;
            vfs_pipe_in vfs_pipe_out Read, file 0, long 5;
            vfs_write_in vfs_write_out Write, file 0, long 4;
            vfs_writev_in vfs_writev_out Write, file 0, long 5;
            vfs_iwrite_in vfs_iwrite_out Write, file 0, long 4;
            vfs_fsync_in vfs_fsync_out Fsync, file 0, int 4;
            vfs_sync_in vfs_sync_out Fsync, file 0, int 4;
        }
        // proto: v5.10- `long __x64_sys_fsync(const struct pt_regs *)`, `__arm64_sys_fsync`
        //
        // Some kernels have the functions on a file inlined into these. `io_uring` calls the functions on a
        // file.
        $on_syscall! {
            vfs_fsync_s_in vfs_fsync_s_out Fsync;
            vfs_fdata_s_in vfs_fdata_s_out Fsync;
            vfs_range_s_in vfs_range_s_out Fsync;
        }
        // proto: v5.10- `(struct file *from, loff_t, struct file *to, loff_t, size_t, unsigned int)`
        $transfer! {
            vfs_splice_in vfs_splice_out;
            vfs_send_in vfs_send_out;
            vfs_copy_in vfs_copy_out;
        }
        // proto: v5.15- `(int directory, struct filename *, …)`; before, some take the caller's `const char
        // __user *`
        $on_name! {
            vfs_mkdir_in vfs_mkdir_out Create, directory 0, name 1, result 3;
            vfs_mknod_in vfs_mknod_out Create, directory 0, name 1, result 4;
            vfs_link_in vfs_link_out Create, directory 2, name 3, result 5;
            vfs_slink_in vfs_slink_out Create, directory 1, name 2, result 3;
            vfs_rename_in vfs_rename_out Create, directory 2, name 3, result 5;
            vfs_unlink_in vfs_unlink_out Unlink, directory 0, name 1, result 2;
            vfs_rmdir_in vfs_rmdir_out Unlink, directory 0, name 1, result 2;
        }
        // proto: v5.10- `int aio_read(struct kiocb *, const struct iocb *, bool vectored, bool compat)`,
        // likewise `aio_write`
        $aio! {
            vfs_aior_in vfs_aior_out Read;
            vfs_aiow_in vfs_aiow_out Write;
        }
        // proto: v5.10- `int io_write(struct io_kiocb *req, …)`
        // proto: v5.10- `void iomap_dio_complete_work(struct work_struct *work)`
        // proto: v5.10-v6.12 `void dio_aio_complete_work(struct work_struct *work)`
        //
        // The second and the third complete direct writes, in a kernel thread.
        $part! {
            vfs_iowr_in vfs_iowr_out;
            vfs_dio_in vfs_dio_out;
            vfs_old_dio_in vfs_old_dio_out;
        }
    };
}
pub(crate) use functions;
