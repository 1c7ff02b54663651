//! The function `bng`: a broadband network gateway. Customers come by two VLAN tags, and leave for the core in GRE and MPLS, or as
//! plain IP.

#![forbid(unsafe_code)]
