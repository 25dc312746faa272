# Permissions of Karpenter, and the queue with interruptions of Spot instances. Instances, volumes and launch templates can be
# changed only if Karpenter created them for this cluster.
resource "aws_iam_role" "karpenter" {
  name               = "${var.cluster}-karpenter"
  assume_role_policy = local.pod_identity
}

resource "aws_iam_role_policy" "karpenter" {
  name = "karpenter"
  role = aws_iam_role.karpenter.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect = "Allow"
        Action = [
          "ec2:DescribeCapacityReservations", "ec2:DescribeImages", "ec2:DescribeInstances", "ec2:DescribeInstanceStatus",
          "ec2:DescribeInstanceTypeOfferings", "ec2:DescribeInstanceTypes", "ec2:DescribeLaunchTemplates",
          "ec2:DescribePlacementGroups", "ec2:DescribeSecurityGroups", "ec2:DescribeSpotPriceHistory", "ec2:DescribeSubnets",
          "pricing:GetProducts", "ssm:GetParameter", "iam:GetInstanceProfile", "iam:ListInstanceProfiles",
        ]
        Resource = "*"
      },
      {
        Effect = "Allow"
        Action = ["ec2:RunInstances", "ec2:CreateFleet"]
        Resource = [for kind in ["image", "snapshot", "security-group", "subnet", "capacity-reservation", "placement-group"] :
        "arn:aws:ec2:${var.region}:*:${kind}/*"]
      },
      {
        Effect   = "Allow"
        Action   = ["ec2:RunInstances", "ec2:CreateFleet"]
        Resource = "arn:aws:ec2:${var.region}:*:launch-template/*"
        Condition = { StringEquals = {
          "aws:ResourceTag/kubernetes.io/cluster/${var.cluster}" = "owned"
        } }
      },
      {
        Effect = "Allow"
        Action = ["ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate"]
        Resource = [for kind in ["fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request"] :
        "arn:aws:ec2:${var.region}:*:${kind}/*"]
        Condition = { StringEquals = {
          "aws:RequestTag/kubernetes.io/cluster/${var.cluster}" = "owned"
          "aws:RequestTag/eks:eks-cluster-name"                 = var.cluster
        } }
      },
      {
        Effect = "Allow"
        Action = "ec2:CreateTags"
        Resource = [for kind in ["fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request"] :
        "arn:aws:ec2:${var.region}:*:${kind}/*"]
        Condition = { StringEquals = {
          "aws:RequestTag/kubernetes.io/cluster/${var.cluster}" = "owned"
          "ec2:CreateAction"                                    = ["RunInstances", "CreateFleet", "CreateLaunchTemplate"]
        } }
      },
      {
        Effect   = "Allow"
        Action   = ["ec2:CreateTags", "ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"]
        Resource = ["arn:aws:ec2:${var.region}:*:instance/*", "arn:aws:ec2:${var.region}:*:launch-template/*"]
        Condition = { StringEquals = {
          "aws:ResourceTag/kubernetes.io/cluster/${var.cluster}" = "owned"
        } }
      },
      {
        Effect    = "Allow"
        Action    = "iam:PassRole"
        Resource  = aws_iam_role.node.arn
        Condition = { StringEquals = { "iam:PassedToService" = "ec2.amazonaws.com" } }
      },
      {
        Effect = "Allow"
        Action = [
          "iam:CreateInstanceProfile", "iam:TagInstanceProfile", "iam:AddRoleToInstanceProfile",
          "iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile",
        ]
        Resource = "arn:aws:iam::${data.aws_caller_identity.current.account_id}:instance-profile/*"
      },
      { Effect = "Allow", Action = "eks:DescribeCluster", Resource = aws_eks_cluster.cluster.arn },
      {
        Effect   = "Allow"
        Action   = ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"]
        Resource = aws_sqs_queue.interruptions.arn
      },
    ]
  })
}

resource "aws_sqs_queue" "interruptions" {
  name                      = var.cluster
  message_retention_seconds = 300
  sqs_managed_sse_enabled   = true
}

resource "aws_sqs_queue_policy" "interruptions" {
  queue_url = aws_sqs_queue.interruptions.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sqs:SendMessage"
      Resource  = aws_sqs_queue.interruptions.arn
      Principal = { Service = ["events.amazonaws.com", "sqs.amazonaws.com"] }
    }]
  })
}

resource "aws_cloudwatch_event_rule" "interruptions" {
  for_each = {
    spot      = { source = "aws.ec2", type = "EC2 Spot Instance Interruption Warning" }
    rebalance = { source = "aws.ec2", type = "EC2 Instance Rebalance Recommendation" }
    state     = { source = "aws.ec2", type = "EC2 Instance State-change Notification" }
    health    = { source = "aws.health", type = "AWS Health Event" }
  }

  name          = "${var.cluster}-${each.key}"
  event_pattern = jsonencode({ source = [each.value.source], detail-type = [each.value.type] })
}

resource "aws_cloudwatch_event_target" "interruptions" {
  for_each = aws_cloudwatch_event_rule.interruptions

  rule = each.value.name
  arn  = aws_sqs_queue.interruptions.arn
}
