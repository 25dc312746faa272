locals {
  node_policies = ["AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryPullOnly"]
}

data "aws_caller_identity" "current" {}

resource "aws_iam_role" "cluster" {
  name = "${var.cluster}-cluster"

  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Action = "sts:AssumeRole", Principal = { Service = "eks.amazonaws.com" } }]
  })
}

resource "aws_iam_role_policy_attachment" "cluster" {
  role       = aws_iam_role.cluster.name
  policy_arn = "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"
}

# Nodes of the node groups and of Karpenter: the name is the one in karpenter-nodepools.yaml.
resource "aws_iam_role" "node" {
  name = "KarpenterNodeRole-${var.cluster}"

  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Action = "sts:AssumeRole", Principal = { Service = "ec2.amazonaws.com" } }]
  })
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each = toset(local.node_policies)

  role       = aws_iam_role.node.name
  policy_arn = "arn:aws:iam::aws:policy/${each.key}"
}

# Roles of service accounts, by EKS Pod Identity.
locals {
  pod_identity = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = ["sts:AssumeRole", "sts:TagSession"]
      Principal = { Service = "pods.eks.amazonaws.com" }
    }]
  })
  roles = merge(
    { cluster-autoscaler = aws_iam_role.cluster_autoscaler.arn, karpenter = aws_iam_role.karpenter.arn },
    { for role in aws_iam_role.load_balancer_controller : "aws-load-balancer-controller" => role.arn }
  )
}

resource "aws_eks_pod_identity_association" "kube_system" {
  for_each = local.roles

  cluster_name    = aws_eks_cluster.cluster.name
  namespace       = "kube-system"
  service_account = each.key
  role_arn        = each.value
}

resource "aws_iam_role" "cluster_autoscaler" {
  name               = "${var.cluster}-cluster-autoscaler"
  assume_role_policy = local.pod_identity
}

resource "aws_iam_role_policy" "cluster_autoscaler" {
  name = "autoscaling"
  role = aws_iam_role.cluster_autoscaler.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect = "Allow"
        Action = [
          "autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeAutoScalingInstances",
          "autoscaling:DescribeLaunchConfigurations", "autoscaling:DescribeScalingActivities", "autoscaling:DescribeTags",
          "ec2:DescribeImages", "ec2:DescribeInstanceTypes", "ec2:DescribeLaunchTemplateVersions",
          "ec2:GetInstanceTypesFromInstanceRequirements", "eks:DescribeNodegroup",
        ]
        Resource = "*"
      },
      {
        Effect    = "Allow"
        Action    = ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"]
        Resource  = "*"
        Condition = { StringEquals = { "aws:ResourceTag/k8s.io/cluster-autoscaler/${var.cluster}" = "owned" } }
      },
    ]
  })
}

resource "aws_iam_role" "load_balancer_controller" {
  count = var.load_balancer_controller_policy_arn == null ? 0 : 1

  name               = "${var.cluster}-aws-load-balancer-controller"
  assume_role_policy = local.pod_identity
}

resource "aws_iam_role_policy_attachment" "load_balancer_controller" {
  count = var.load_balancer_controller_policy_arn == null ? 0 : 1

  role       = aws_iam_role.load_balancer_controller[0].name
  policy_arn = var.load_balancer_controller_policy_arn
}
