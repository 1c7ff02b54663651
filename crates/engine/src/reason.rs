//! Why the engine itself drops packets.

weir_stage::ways! {
    /// The engine's own reasons, beside those of the stages. The first stands for what is not dropped.
    pub enum Reason {
        /// Passed on.
        None => way "none",
        /// The port's transmit ring stayed full.
        TxFull => drop "tx-full",
        /// The port is gone.
        LinkDown => drop "link-down",
        /// The link to the other worker was full, and may drop.
        LinkFull => drop "link-full",
        /// The packet went round by `again` ways too often.
        LoopLimit => drop "loop-limit",
        /// What held the packet was replaced or removed by a reload.
        Reload => drop "reload",
        /// A stage of the control side panicked while it had the packet: a defect, of which the log tells.
        Panicked => drop "panicked",
        /// The engine stopped before the packet could leave.
        Shutdown => drop "shutdown",
    }
}
