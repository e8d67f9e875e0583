/**
 * The variable that marks every process of a kernel: set in the kernel's environment to its id, inherited by all it starts, and
 * ended with it. A process that is to outlive the kernel is started without it.
 */
export const KERNEL_MARK = 'ROOMD_KERNEL_ID'
