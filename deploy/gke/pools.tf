locals {
  # Machine types by GPU model and GPUs per node. The K80 of the guide is no longer offered: Google ended its support on
  # 2024-05-01, and current drivers and CUDA 12 do not support its architecture (Kepler). The L4 is the default, because its
  # machines exist with 1, 2, 4 and 8 GPUs in many zones. N1 machines have 5 GB of memory per core, as the guide recommends;
  # machines of other series have a fixed memory size.
  machines = {
    "nvidia-l4" = {
      1 = "g2-standard-8"
      2 = "g2-standard-24"
      4 = "g2-standard-48"
      8 = "g2-standard-96"
    }
    "nvidia-tesla-v100" = {
      1 = "custom-8-40960"
      2 = "custom-16-81920"
      4 = "custom-32-163840"
      8 = "custom-64-327680"
    }
    "nvidia-tesla-t4" = { # at most 4 GPUs per node
      1 = "custom-8-40960"
      2 = "custom-16-81920"
      4 = "custom-32-163840"
    }
    "nvidia-tesla-a100" = {
      1 = "a2-highgpu-1g"
      2 = "a2-highgpu-2g"
      4 = "a2-highgpu-4g"
      8 = "a2-highgpu-8g"
    }
  }
  gpu_pools = local.machines[var.gpu]
}

resource "google_container_node_pool" "cpu" {
  name               = "cpu-1"
  cluster            = google_container_cluster.cluster.id
  initial_node_count = var.cpu_nodes.min

  autoscaling {
    min_node_count = var.cpu_nodes.min
    max_node_count = var.cpu_nodes.max
  }

  node_config {
    machine_type = "n2-custom-${var.cpu_cores}-${var.cpu_cores * 5 * 1024}"
    oauth_scopes = ["https://www.googleapis.com/auth/cloud-platform"]
  }

  lifecycle {
    ignore_changes = [initial_node_count] # the autoscaler changes it
  }
}

# Pools such as nvidia-l4-1 and nvidia-l4-4. GKE adds the taint nvidia.com/gpu=present:NoSchedule and the label
# cloud.google.com/gke-accelerator itself, and gives the toleration to pods that request nvidia.com/gpu.
resource "google_container_node_pool" "gpu" {
  for_each = local.gpu_pools

  name               = "${var.gpu}-${each.key}"
  cluster            = google_container_cluster.cluster.id
  initial_node_count = 0

  autoscaling {
    min_node_count  = 0
    max_node_count  = var.gpu_max_nodes
    location_policy = "ANY" # one zone; also lowers the risk of preemption for Spot VMs
  }

  management {
    auto_repair  = true
    auto_upgrade = true
  }

  node_config {
    machine_type = each.value
    spot         = var.spot
    oauth_scopes = ["https://www.googleapis.com/auth/cloud-platform"]

    guest_accelerator {
      type  = var.gpu
      count = tonumber(each.key)

      gpu_driver_installation_config {
        gpu_driver_version = var.gpu_driver_version
      }

      dynamic "gpu_sharing_config" {
        for_each = var.gpu_shared_clients > 1 ? [var.gpu_shared_clients] : []

        content {
          gpu_sharing_strategy       = "TIME_SHARING"
          max_shared_clients_per_gpu = gpu_sharing_config.value
        }
      }
    }

    labels = {
      "accelerator"            = "nvidia-gpu" # selected by the DaemonSets of other guides
      "gpuscale.dev/pool-gpus" = each.key
    }

    dynamic "taint" {
      for_each = var.size_taints && tonumber(each.key) > 1 ? [each.key] : []

      content {
        key    = "gpuscale.dev/pool-gpus"
        value  = taint.value
        effect = "NO_SCHEDULE"
      }
    }
  }

  lifecycle {
    ignore_changes = [initial_node_count]
  }
}
