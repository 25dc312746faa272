variable "project" {
  description = "ID of the Google Cloud project. Its quota GPUS_ALL_REGIONS must allow the GPUs."
  type        = string
}

variable "zone" {
  description = "Zone of the cluster and of all nodes. It must have the GPU: gcloud compute accelerator-types list."
  type        = string
  default     = "us-central1-c"
}

variable "credentials" {
  description = "Path of a service account key (key.json). Without it, the application default credentials are used."
  type        = string
  default     = null
}

variable "cluster" {
  description = "Name of the cluster."
  type        = string
  default     = "test"
}

variable "gpu" {
  description = "GPU model of all GPU pools, as Compute Engine names it: a key of local.machines in pools.tf."
  type        = string
  default     = "nvidia-l4"
}

variable "gpu_driver_version" {
  description = "DEFAULT or LATEST: GKE installs this driver. INSTALLATION_DISABLED: apply the driver installer DaemonSet yourself."
  type        = string
  default     = "DEFAULT"

  validation {
    condition     = contains(["DEFAULT", "LATEST", "INSTALLATION_DISABLED"], var.gpu_driver_version)
    error_message = "gpu_driver_version is DEFAULT, LATEST or INSTALLATION_DISABLED."
  }
}

variable "gpu_shared_clients" {
  description = "Number of pods that share a GPU by time slicing. 1: each pod has its GPUs for itself."
  type        = number
  default     = 1
}

variable "gpu_max_nodes" {
  description = "Maximum number of nodes of each GPU pool. The minimum is 0."
  type        = number
  default     = 8
}

variable "spot" {
  description = "Spot VMs for GPU nodes: cheaper, and they can be preempted at any time."
  type        = bool
  default     = true
}

variable "size_taints" {
  description = "Adds the taint gpuscale.dev/pool-gpus=N:NoSchedule to pools with N > 1 GPUs per node. Only pods that tolerate it use them."
  type        = bool
  default     = false
}

variable "autoscaling_profile" {
  description = "OPTIMIZE_UTILIZATION removes idle nodes sooner and places pods on the fullest node. BALANCED keeps spare nodes longer."
  type        = string
  default     = "OPTIMIZE_UTILIZATION"

  validation {
    condition     = contains(["OPTIMIZE_UTILIZATION", "BALANCED"], var.autoscaling_profile)
    error_message = "autoscaling_profile is OPTIMIZE_UTILIZATION or BALANCED."
  }
}

variable "cpu_nodes" {
  description = "Minimum and maximum number of CPU nodes. System pods need at least one: without it, nothing can be scheduled."
  type        = object({ min = number, max = number })
  default     = { min = 1, max = 4 }

  validation {
    condition     = var.cpu_nodes.min >= 1 && var.cpu_nodes.max >= var.cpu_nodes.min
    error_message = "The CPU pool needs at least one node."
  }
}

variable "cpu_cores" {
  description = "Cores of a CPU node. It has 5 GB of memory per core."
  type        = number
  default     = 4

  validation {
    condition     = contains([2, 4, 8, 16, 32], var.cpu_cores)
    error_message = "cpu_cores is 2, 4, 8, 16 or 32."
  }
}
