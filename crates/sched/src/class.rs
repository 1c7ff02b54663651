//! Traffic class and queue of a packet, as the lane `class` carries them from classification to the scheduler.

/// Traffic classes of a user at most.
pub const MAX_CLASSES: usize = 8;

/// Queues in the lowest class at most; the others have one each.
pub const MAX_QUEUES: usize = 8;

/// A traffic class and a queue in it, in one byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClassQueue(u8);

impl ClassQueue {
    /// Queue `queue` of traffic class `class`, each modulo 8. Class 0 goes first. Only the lowest class has more than queue 0.
    pub const fn new(class: u8, queue: u8) -> ClassQueue {
        ClassQueue(((class % 8) << 3) | (queue % 8))
    }

    /// From the value of the lane.
    #[inline(always)]
    pub const fn from_lane(value: u8) -> ClassQueue {
        ClassQueue(value)
    }

    /// The value for the lane.
    #[inline(always)]
    pub const fn to_lane(self) -> u8 {
        self.0
    }

    /// The traffic class, below [`MAX_CLASSES`].
    #[inline(always)]
    pub const fn class(self) -> u8 {
        (self.0 >> 3) & 7
    }

    /// The queue in its class, below [`MAX_QUEUES`].
    #[inline(always)]
    pub const fn queue(self) -> u8 {
        self.0 & 7
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_and_queue_survive_the_lane() {
        for class in 0..8 {
            for queue in 0..8 {
                let back = ClassQueue::from_lane(ClassQueue::new(class, queue).to_lane());
                assert_eq!((back.class(), back.queue()), (class, queue));
            }
        }
    }
}
