resource "aws_eks_node_group" "cpu" {
  cluster_name    = aws_eks_cluster.cluster.name
  node_group_name = "cpu-1"
  node_role_arn   = aws_iam_role.node.arn
  subnet_ids      = [for s in aws_subnet.private : s.id]
  ami_type        = "AL2023_x86_64_STANDARD"
  instance_types  = ["m6i.xlarge", "m5.xlarge", "m6a.xlarge"]
  labels          = { "gpuscale.dev/pool" = "cpu-1" }

  scaling_config {
    min_size     = 1
    max_size     = 4
    desired_size = 2
  }

  lifecycle {
    ignore_changes = [scaling_config[0].desired_size] # the autoscaler changes it
  }

  depends_on = [aws_iam_role_policy_attachment.node]
}

locals {
  gpu_labels = { for gpus, types in var.gpu_pools : gpus => {
    "accelerator"                   = "nvidia-gpu"
    "k8s.amazonaws.com/accelerator" = var.gpu_model
    "gpuscale.dev/pool"             = "gpu-${gpus}"
    "gpuscale.dev/pool-gpus"        = gpus
  } }
  gpu_taints = { for gpus, types in var.gpu_pools : gpus => merge(
    { "nvidia.com/gpu" = "present" },
    var.size_taints && tonumber(gpus) > 1 ? { "gpuscale.dev/pool-gpus" = gpus } : {}
  ) }
  # What the Cluster Autoscaler assumes of the first node of an empty group.
  gpu_tags = merge([for gpus, types in var.gpu_pools : merge(
    { for k, v in local.gpu_labels[gpus] : "${gpus} label ${k}" => {
      gpus = gpus, key = "k8s.io/cluster-autoscaler/node-template/label/${k}", value = v
    } },
    { for k, v in local.gpu_taints[gpus] : "${gpus} taint ${k}" => {
      gpus = gpus, key = "k8s.io/cluster-autoscaler/node-template/taint/${k}", value = "${v}:NoSchedule"
    } },
    { "${gpus} resource nvidia.com/gpu" = {
      gpus = gpus, key = "k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu", value = gpus
    } }
  )]...)
}

resource "aws_eks_node_group" "gpu" {
  for_each = var.gpu_pools

  cluster_name    = aws_eks_cluster.cluster.name
  node_group_name = "gpu-${each.key}"
  node_role_arn   = aws_iam_role.node.arn
  subnet_ids      = [for s in aws_subnet.private : s.id]
  ami_type        = "AL2023_x86_64_NVIDIA" # contains the driver
  capacity_type   = var.spot ? "SPOT" : "ON_DEMAND"
  instance_types  = each.value
  disk_size       = 100
  labels          = local.gpu_labels[each.key]

  scaling_config {
    min_size     = 0
    max_size     = var.gpu_max_nodes
    desired_size = 0
  }

  dynamic "taint" {
    for_each = local.gpu_taints[each.key]

    content {
      key    = taint.key
      value  = taint.value
      effect = "NO_SCHEDULE"
    }
  }

  lifecycle {
    ignore_changes = [scaling_config[0].desired_size]
  }

  depends_on = [aws_iam_role_policy_attachment.node]
}

resource "aws_autoscaling_group_tag" "gpu" {
  for_each = local.gpu_tags

  autoscaling_group_name = aws_eks_node_group.gpu[each.value.gpus].resources[0].autoscaling_groups[0].name

  tag {
    key                 = each.value.key
    value               = each.value.value
    propagate_at_launch = false
  }
}
