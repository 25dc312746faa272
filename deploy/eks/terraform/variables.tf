variable "cluster" {
  description = "Name of the cluster. The files in deploy/eks use the default."
  type        = string
  default     = "gpu-autoscaling-dev"
}

variable "region" {
  description = "AWS region."
  type        = string
  default     = "ap-northeast-2"
}

variable "kubernetes_version" {
  description = "Kubernetes version of the cluster and its nodes."
  type        = string
  default     = "1.35"
}

variable "admin_role_arns" {
  description = "IAM roles with administrator access to the cluster, such as the role of the web console. You have it, too."
  type        = list(string)
  default     = []
}

variable "gpu_pools" {
  description = "GPU node groups: instance types by number of GPUs. All types of a group have the same number of GPUs."
  type        = map(list(string))
  default = {
    1 = ["g4dn.xlarge", "g4dn.2xlarge", "g4dn.4xlarge"]
    4 = ["g4dn.12xlarge"]
    8 = ["g4dn.metal"]
  }
}

variable "gpu_model" {
  description = "Value of the label k8s.amazonaws.com/accelerator, by which the Cluster Autoscaler knows that GPUs will follow."
  type        = string
  default     = "nvidia-tesla-t4"
}

variable "gpu_max_nodes" {
  description = "Maximum number of nodes of each GPU node group. The minimum is 0."
  type        = number
  default     = 8
}

variable "spot" {
  description = "Spot instances for GPU nodes."
  type        = bool
  default     = true
}

variable "size_taints" {
  description = "Adds the taint gpuscale.dev/pool-gpus=N:NoSchedule to groups with N > 1 GPUs per node. Only pods that tolerate it use them."
  type        = bool
  default     = false
}

variable "load_balancer_controller_policy_arn" {
  description = "IAM policy of the AWS Load Balancer Controller (docs/install/iam_policy.json of its repository). Without it, its role is not created."
  type        = string
  default     = null
}
