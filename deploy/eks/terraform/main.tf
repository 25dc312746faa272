# An EKS cluster whose GPU node groups grow from zero. docs/nodes.md explains the choices.
# Create:  terraform -chdir=deploy/eks/terraform apply
# Remove everything:  deploy/eks/uninstall --terraform
terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 6.0"
    }
  }
}

provider "aws" {
  region = var.region
}

# Zones that have the smallest GPU instance. Others, such as ap-northeast-2b, are not used at all.
data "aws_ec2_instance_type_offerings" "gpu" {
  location_type = "availability-zone"

  filter {
    name   = "instance-type"
    values = [var.gpu_pools["1"][0]]
  }
}

locals {
  zones = slice(sort(distinct(data.aws_ec2_instance_type_offerings.gpu.locations)), 0, 2)
}

resource "aws_eks_cluster" "cluster" {
  name     = var.cluster
  version  = var.kubernetes_version
  role_arn = aws_iam_role.cluster.arn

  access_config {
    authentication_mode                         = "API_AND_CONFIG_MAP"
    bootstrap_cluster_creator_admin_permissions = true
  }

  vpc_config {
    subnet_ids = concat([for s in aws_subnet.private : s.id], [for s in aws_subnet.public : s.id])
  }

  tags = { "karpenter.sh/discovery" = var.cluster }

  depends_on = [aws_iam_role_policy_attachment.cluster]
}

resource "aws_eks_addon" "addon" {
  for_each = toset(["vpc-cni", "kube-proxy", "coredns", "eks-pod-identity-agent", "metrics-server"])

  cluster_name = aws_eks_cluster.cluster.name
  addon_name   = each.key

  depends_on = [aws_eks_node_group.cpu]
}

# IAM roles that may use the cluster.
resource "aws_eks_access_entry" "admin" {
  for_each = toset(var.admin_role_arns)

  cluster_name  = aws_eks_cluster.cluster.name
  principal_arn = each.key
}

resource "aws_eks_access_policy_association" "admin" {
  for_each = aws_eks_access_entry.admin

  cluster_name  = aws_eks_cluster.cluster.name
  principal_arn = each.value.principal_arn
  policy_arn    = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"

  access_scope {
    type = "cluster"
  }
}

output "credentials_command" {
  description = "Writes the kubeconfig."
  value       = "aws eks update-kubeconfig --name ${aws_eks_cluster.cluster.name} --region ${var.region}"
}

output "zones" {
  description = "Zones of the cluster, all of which have GPU instances."
  value       = local.zones
}
