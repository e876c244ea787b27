//! Classifies what the kernel does in its functions: a table of their names, and the rule that reads it.
//!
//! A sample is a chain of functions, innermost first. The innermost function alone rarely shows what its
//! time was spent on: a spin lock is released by a function that wakes a sleeper as well as by one that
//! removes a page from a list. Rows are therefore tried in order, and each has a reach: the whole chain
//! (a page fault remains one whatever it allocates), the innermost function that any row names, or only
//! the innermost function. The time of a function that no row names belongs to its caller; a chain
//! without any named function is not classified, and shown as such.

use std::ops::Range;

use fullbore_results::explain::Class;

/// The part of a chain that a row examines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Any function of the chain, before all other kinds of rows, in the order of the table.
    Chain,
    /// The innermost function, called by one of `under`. Unwinders skip the caller of a function without
    /// its own frame, so the recorded caller may be one call farther out.
    LeafUnder,
    /// The innermost function that a row of this reach names.
    Innermost,
    /// The innermost function, if no other row matches.
    Leaf,
}

/// Functions whose time is of one class.
#[derive(Debug)]
struct Pattern {
    class: Class,
    reach: Reach,
    /// Names; `*` at either end matches any text.
    functions: &'static [&'static str],
    /// If not empty, one of these has to be farther out in the chain.
    under: &'static [&'static str],
}

/// The functions between the system call and the pipe's mutex.
#[rustfmt::skip]
const A_PIPE: &[&str] = &["*pipe*", "*splice*", "do_tee", "*sys_tee", "link_pipe", "wait_for_space"];

/// The names in kernels from 4.19 to 6.18, on x86-64 and arm64. docs/explain.md says in which of them
/// each name was seen.
#[rustfmt::skip]
const TABLE: &[Pattern] = &[
    // A reschedule interrupt delivers the wake-up by the other side.
    Pattern { class: Class::Sleeping, reach: Reach::Chain, under: &[], functions: &[
        "*sysvec_reschedule_ipi", "*sysvec_call_function_single", "reschedule_interrupt", "smp_reschedule_interrupt",
        "call_function_single_interrupt", "smp_call_function_single_interrupt",
    ] },
    Pattern { class: Class::Interrupts, reach: Reach::Chain, under: &[], functions: &[
        "asm_sysvec_*", "sysvec_*", "asm_common_interrupt", "common_interrupt", "do_IRQ", "ret_from_intr", "asm_exc_nmi",
        "apic_timer_interrupt", "smp_apic_timer_interrupt", "irq_exit", "irq_exit_rcu", "__irq_exit_rcu",
        "el1_irq", "el0_irq", "el1h_64_irq*", "el0t_64_irq*", "gic_handle_irq",
    ] },
    Pattern { class: Class::Faults, reach: Reach::Chain, under: &[], functions: &[
        "asm_exc_page_fault", "exc_page_fault", "page_fault", "async_page_fault", "do_page_fault", "__do_page_fault",
        "do_user_addr_fault", "handle_mm_fault", "__handle_mm_fault", "faultin_page", "do_mem_abort", "do_translation_fault",
    ] },
    Pattern { class: Class::Lock, reach: Reach::Chain, under: A_PIPE, functions: &[
        "mutex_lock*", "__mutex_lock*", "mutex_spin_on_owner", "osq_lock", "osq_unlock", "mutex_trylock", "mutex_unlock",
        "__mutex_unlock_slowpath*", "mutex_optimistic_spin",
    ] },
    // These functions of a pipe only lock and unlock its mutex.
    Pattern { class: Class::Lock, reach: Reach::Chain, under: &[], functions: &["pipe_lock", "pipe_unlock", "pipe_double_lock"] },
    // Reading the call's own arguments is not copying data.
    Pattern { class: Class::Entering, reach: Reach::Chain, under: &[], functions: &[
        "copy_iovec_from_user", "import_iovec", "__import_iovec", "import_ubuf", "import_single_range", "rw_copy_check_uvector",
    ] },
    // A pipe's own code has no spin locks; those of its wait queues are acquired for waking and for falling
    // asleep.
    Pattern { class: Class::Sleeping, reach: Reach::LeafUnder, under: &[
        "pipe_read", "pipe_write", "anon_pipe_read", "anon_pipe_write", "fifo_pipe_*", "pipe_wait*", "wait_for_space", "wakeup_pipe_*", "pipe_poll",
        "*splice*", "do_tee", "link_pipe", "ipipe_prep", "opipe_prep",
    ], functions: &["_raw_spin_*", "native_queued_spin_lock_slowpath", "queued_spin_lock_slowpath", "__pv_queued_spin_lock_slowpath"] },
    Pattern { class: Class::Copying, reach: Reach::Innermost, under: &[], functions: &[
        "_copy_to_iter", "_copy_from_iter", "_copy_from_iter_full", "copy_page_to_iter*", "copy_page_from_iter*", "copyin", "copyout",
        "copy_to_user_iter", "copy_from_user_iter", "rep_movs_alternative", "copy_user_enhanced_fast_string",
        "copy_user_generic*", "copy_user_fast_string", "__arch_copy_to_user", "__arch_copy_from_user", "copy_folio_to_iter",
        "iov_iter_copy_from_user_atomic", "copy_folio_from_iter_atomic", "memcpy", "memcpy_orig", "memcpy_erms", "__memcpy",
        "memcpy_to_page*", "memcpy_from_page*", "memcpy_*_iter",
        "skb_copy_datagram*", "__skb_datagram_iter", "simple_copy_to_iter", "skb_copy_bits", "skb_splice_bits",
        "copy_page", "copy_mc_*",
    ] },
    Pattern { class: Class::LookingUp, reach: Reach::Innermost, under: &[], functions: &[
        "get_user_pages*", "__get_user_pages*", "pin_user_pages*", "internal_get_user_pages_fast", "gup_fast*",
        "gup_pgd_range", "gup_p4d_range", "gup_pud_range", "gup_pmd_range", "gup_pte_range", "gup_huge_pmd", "gup_huge_pud",
        "__gup_device_huge*", "try_grab_folio*", "try_grab_compound_head", "try_get_folio", "try_get_compound_head",
        "follow_page*", "follow_pmd_mask", "follow_trans_huge_pmd", "__gup_longterm_locked", "lockless_pages_from_mm",
        "iov_iter_get_pages*", "__iov_iter_get_pages*", "pipe_get_pages*", "iov_iter_extract_pages*", "iter_to_pipe",
        "filemap_get_pages", "filemap_get_read_batch", "filemap_get_entry", "find_get_page*", "find_get_entry", "pagecache_get_page",
        "__filemap_get_folio", "next_uptodate_*", "splice_folio_into_pipe", "filemap_splice_read",
    ] },
    Pattern { class: Class::Pages, reach: Reach::Innermost, under: &[], functions: &[
        "alloc_pages*", "__alloc_pages*", "__alloc_frozen_pages*", "alloc_frozen_pages*", "get_page_from_freelist", "rmqueue*",
        "__rmqueue*", "prep_new_page", "post_alloc_hook", "folio_alloc*", "__folio_alloc*", "vma_alloc_folio*", "anon_pipe_get_page",
        "anon_pipe_put_page", "__free_pages*", "__free_frozen_pages*", "free_frozen_pages*", "free_unref_*", "free_pcppages_bulk",
        "free_pcp_*", "free_one_page", "free_page*", "__free_one_page", "__put_page", "put_page", "__put_single_page",
        "__folio_put*", "folio_put", "folios_put*", "release_pages", "get_pfnblock_flags_mask", "__get_pfnblock_flags_mask",
        "anon_pipe_buf_release", "page_cache_pipe_buf_release", "generic_pipe_buf_release", "user_page_pipe_buf_*",
        "mem_cgroup_*", "__mem_cgroup_*", "memcg_*", "__memcg_*", "memcg1_*", "obj_cgroup_*", "charge_memcg", "try_charge*", "uncharge_*",
        "page_counter_*", "refill_stock", "consume_stock", "drain_stock", "mod_memcg_*", "__mod_memcg_*",
        "kmem_cache_*", "__kmem_cache_*", "kmalloc*", "__kmalloc*", "kfree", "__kfree", "__slab_alloc*", "___slab_alloc", "__slab_free",
        "kvfree", "kvmalloc*", "slab_*", "alloc_skb_with_frags", "__alloc_skb", "sock_alloc_send_pskb", "kfree_skb*", "consume_skb",
        "skb_release_*", "skb_free_head", "unmap_*", "zap_*", "tlb_*", "exit_mmap", "free_pgtables", "free_pages_and_swap_cache",
        "madvise_dontneed*", "do_madvise", "lru_add_drain*", "do_munmap", "__do_munmap", "do_vmi_*munmap", "lru_gen_*", "split_huge_*", "__split_huge_*",
    ] },
    Pattern { class: Class::Faults, reach: Reach::Innermost, under: &[], functions: &[
        "clear_page*", "clear_huge_page*", "clear_subpage", "folio_zero_user", "clear_contig_highpages", "clear_user*", "__clear_user",
        "rep_stos_alternative", "iov_iter_zero", "kernel_init_pages", "zero_user*", "read_iter_zero", "read_zero",
    ] },
    Pattern { class: Class::Sleeping, reach: Reach::Innermost, under: &[], functions: &[
        "schedule", "__schedule", "schedule_*", "preempt_schedule*", "__cond_resched", "_cond_resched", "io_schedule*",
        "finish_task_switch", "__switch_to", "__switch_to_asm", "context_switch", "switch_mm*", "switch_fpu_return", "prepare_task_switch",
        "pick_next_*", "__pick_next_task", "pick_task*", "put_prev_*", "set_next_*", "dequeue_*", "enqueue_*", "update_curr*", "update_load_avg*",
        "__update_load_avg*", "update_rq_clock*", "newidle_balance", "sched_balance_*", "load_balance", "balance_fair", "psi_*", "deactivate_task", "activate_task",
        "try_to_wake_up", "ttwu_*", "wake_up_*", "__wake_up*", "default_wake_function", "autoremove_wake_function", "pollwake",
        "ep_poll_callback", "select_task_rq*", "select_idle_*", "check_preempt_*", "wakeup_preempt*", "resched_curr*", "__resched_curr",
        "native_smp_send_reschedule", "smp_send_reschedule", "x2apic_send_IPI", "sock_def_readable", "sock_def_write_space", "unix_write_space",
        "prepare_to_wait*", "finish_wait", "init_wait_entry", "add_wait_queue*", "remove_wait_queue*", "pipe_wait", "pipe_wait_*", "wait_for_unix_gc",
        "do_wait_intr*", "wait_woken", "woken_wake_function", "sock_alloc_send_wait*", "unix_stream_data_wait", "sk_wait_data",
        "futex_*", "__futex_*", "do_futex", "hrtimer_nanosleep", "do_nanosleep", "do_poll*", "do_sys_poll", "do_select", "poll_schedule_timeout*",
        "ep_poll", "do_epoll_wait", "do_wait", "sched_yield", "do_sched_yield", "do_idle", "cpuidle_*", "exit_to_user_mode_loop",
    ] },
    Pattern { class: Class::Entering, reach: Reach::Innermost, under: &[], functions: &[
        "fdget*", "__fdget*", "__fget*", "fget*", "fput", "fput_many", "__fput", "rw_verify_area", "security_file_permission",
        "apparmor_file_permission", "selinux_file_permission", "bpf_lsm_file_permission", "*fsnotify*",
        "syscall_exit_to_user_mode*", "syscall_enter_from_user_mode*", "syscall_trace_enter*", "exit_to_user_mode_prepare", "prepare_exit_to_usermode",
        "syscall_return_slowpath", "syscall_slow_exit_work", "__rseq_handle_notify_resume", "rseq_*", "__seccomp_filter", "seccomp_*", "__secure_computing",
        "__get_user_*", "__put_user_*", "get_user_*", "put_user_*", "fpregs_*", "file_update_time*", "touch_atime", "atime_needs_update",
        "__audit_syscall*", "ktime_get_coarse*", "inode_needs_update_time", "current_time",
    ] },
    Pattern { class: Class::Bookkeeping, reach: Reach::Innermost, under: &[], functions: &[
        "pipe_read", "pipe_write", "anon_pipe_read", "anon_pipe_write", "fifo_pipe_read", "fifo_pipe_write", "pipe_poll", "pipe_ioctl",
        "pipe_fcntl", "pipe_resize_ring", "pipe_set_size", "get_pipe_info", "pipe_buf_*", "add_to_pipe", "wait_for_space", "pipe_clear_nowait",
        "vmsplice_to_pipe", "vmsplice_to_user", "__do_splice", "do_splice", "do_splice_*", "splice_from_pipe*", "__splice_from_pipe", "splice_to_pipe",
        "splice_pipe_to_pipe", "splice_file_to_pipe", "splice_write_null", "pipe_to_null", "pipe_to_user", "splice_grow_spd", "generic_file_splice_read",
        "iter_file_splice_write", "generic_splice_sendpage", "splice_to_socket", "copy_splice_read", "default_file_splice_read", "direct_splice_actor",
        "ipipe_prep", "opipe_prep", "link_pipe", "do_tee", "kill_fasync",
    ] },
    // This is the rest of the call itself, if no function on the way out to it is named.
    Pattern { class: Class::Bookkeeping, reach: Reach::Leaf, under: &[], functions: &[
        "__do_sys_splice", "__do_sys_vmsplice", "__do_sys_tee", "*_sys_splice", "*_sys_vmsplice", "*_sys_tee", "vfs_read", "vfs_write", "new_sync_read", "new_sync_write",
        "__vfs_read", "__vfs_write", "vfs_readv", "vfs_writev", "do_iter_*",
    ] },
    Pattern { class: Class::Entering, reach: Reach::Leaf, under: &[], functions: &[
        "do_syscall_64", "entry_SYSCALL_64*", "entry_SYSRETQ*", "syscall_return_via_sysret", "x64_sys_call", "__x64_sys_*", "__arm64_sys_*", "ksys_*",
        "__do_sys_*", "__se_sys_*", "do_readv", "do_writev", "el0_svc*", "el0t_64_sync*", "invoke_syscall*", "do_el0_svc", "__entry_text_*",
        "native_write_msr", "entry_*", "asm_exc_*", "error_entry", "error_return", "irqentry_*", "swapgs_*", "srso_*", "retbleed_*",
        "__x86_return_thunk", "__x86_indirect_thunk*", "clear_bhb_loop", "ret_from_fork*",
    ] },
];

/// Returns the class of a sample in the kernel. `chain` is innermost first.
pub fn classify(chain: &[&str]) -> Class {
    let names: Vec<&str> = chain.iter().map(|name| base_name(name)).collect();
    let row = |reach, at: Range<usize>| {
        let mut rows = TABLE.iter().filter(|row| row.reach == reach);
        rows.find(|row| at.clone().any(|at| row.names(&names, at)))
    };
    let (all, leaf) = (0..names.len(), 0..names.len().min(1));
    let row = row(Reach::Chain, all.clone())
        .or_else(|| row(Reach::LeafUnder, leaf.clone()))
        .or_else(|| all.clone().find_map(|at| row(Reach::Innermost, at..at + 1)))
        .or_else(|| row(Reach::Leaf, leaf.clone()));
    row.map_or(Class::NotClassified, |row| row.class)
}

impl Pattern {
    /// Returns whether the row names the function at `at`, and one of `under` is farther out.
    fn names(&self, names: &[&str], at: usize) -> bool {
        let named = |patterns: &[&str], name: &str| patterns.iter().any(|p| matches(p, name));
        let above = match self.reach {
            Reach::LeafUnder => &names[at + 1..(at + 2).min(names.len())],
            _ => &names[at + 1..],
        };
        named(self.functions, names[at])
            && (self.under.is_empty() || above.iter().any(|name| named(self.under, name)))
    }
}

/// Returns a function's name without the suffixes that the compiler adds to its copies (`.isra.0`,
/// `.constprop.0`, `.part.0`, `.cold`, `.llvm.123`), and without that of allocation profiling (6.10),
/// `_noprof`.
fn base_name(name: &str) -> &str {
    let name = match name.find('.') {
        Some(at) if at > 0 => &name[..at],
        _ => name,
    };
    name.strip_suffix("_noprof").unwrap_or(name)
}

/// Returns whether `name` matches `pattern`, which may have `*` at its ends.
fn matches(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(_), Some(_)) => name.contains(pattern.trim_matches('*')),
        (Some(end), None) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => match pattern.split_once('*') {
            Some((start, end)) => name
                .strip_prefix(start)
                .is_some_and(|rest| rest.ends_with(end)),
            None => name == pattern,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::profile::Stack;
    use super::*;
    use fullbore_results::explain::MEANINGS;

    /// The chains of each kernel; each file says whether it is a recording.
    const STACKS: &[(&str, &str)] = &[
        ("4.19", include_str!("stacks/4.19.folded")),
        ("5.4", include_str!("stacks/5.4.folded")),
        ("5.15", include_str!("stacks/5.15.folded")),
        ("6.1", include_str!("stacks/6.1.folded")),
        ("6.1 on arm64", include_str!("stacks/6.1-arm64.folded")),
        ("6.8", include_str!("stacks/6.8.folded")),
        ("6.18", include_str!("stacks/6.18.folded")),
    ];

    #[test]
    fn chains_of_many_kernels_are_what_they_are_expected_to_be() {
        let mut wrong = Vec::new();
        for (kernel, text) in STACKS {
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            for line in lines {
                let (expected, folded) = line.split_once(": ").unwrap();
                let (_, stack, _) = Stack::unfold(folded).unwrap();
                let class = serde_json::to_value(stack.class()).unwrap();
                if class != expected {
                    wrong.push(format!("{kernel}: {class}, not {expected}: {folded}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn every_class_has_a_name_and_a_row_or_a_reason_to_have_none() {
        for meaning in MEANINGS {
            assert_eq!(meaning.class.meaning().name, meaning.name);
            let without_rows = matches!(meaning.class, Class::User | Class::NotClassified);
            assert_eq!(
                TABLE.iter().any(|row| row.class == meaning.class),
                !without_rows
            );
        }
    }

    #[test]
    fn a_star_stands_for_anything_at_an_end_or_in_the_middle() {
        for (pattern, name, fits) in [
            ("gup_fast*", "gup_fast_fallback", true),
            ("gup_fast*", "gup_slow", false),
            ("*_sys_tee", "__do_sys_tee", true),
            ("*pipe*", "anon_pipe_read", true),
            ("memcpy_*_iter", "memcpy_from_iter", true),
            ("memcpy_*_iter", "memcpy_iter", false),
            ("kfree", "kfree_skb", false),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
        assert_eq!(base_name("finish_task_switch.isra.0"), "finish_task_switch");
        assert_eq!(base_name("alloc_pages_noprof"), "alloc_pages");
    }
}
