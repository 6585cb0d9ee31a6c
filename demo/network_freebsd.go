package demo

// workerNetwork is what the tenant with a worker gets: one in which the gateway can reach it.
const workerNetwork = "inherit"
