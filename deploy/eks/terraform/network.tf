# A VPC with a public subnet (for load balancers) and a private one (for nodes) in each zone.
resource "aws_vpc" "vpc" {
  cidr_block           = "10.0.0.0/16"
  enable_dns_hostnames = true
  enable_dns_support   = true

  tags = { Name = var.cluster }
}

resource "aws_internet_gateway" "internet" {
  vpc_id = aws_vpc.vpc.id

  tags = { Name = var.cluster }
}

resource "aws_subnet" "public" {
  for_each = { for i, zone in local.zones : zone => i }

  vpc_id                  = aws_vpc.vpc.id
  availability_zone       = each.key
  cidr_block              = cidrsubnet(aws_vpc.vpc.cidr_block, 4, each.value)
  map_public_ip_on_launch = true

  tags = {
    Name                     = "${var.cluster}-public-${each.key}"
    "kubernetes.io/role/elb" = "1" # load balancers with the scheme internet-facing
  }
}

resource "aws_subnet" "private" {
  for_each = { for i, zone in local.zones : zone => i }

  vpc_id            = aws_vpc.vpc.id
  availability_zone = each.key
  cidr_block        = cidrsubnet(aws_vpc.vpc.cidr_block, 4, 8 + each.value)

  tags = {
    Name                              = "${var.cluster}-private-${each.key}"
    "kubernetes.io/role/internal-elb" = "1"
    "karpenter.sh/discovery"          = var.cluster
  }
}

resource "aws_eip" "nat" {
  domain = "vpc"

  tags = { Name = var.cluster }
}

resource "aws_nat_gateway" "nat" {
  allocation_id = aws_eip.nat.id
  subnet_id     = aws_subnet.public[local.zones[0]].id

  tags = { Name = var.cluster }

  depends_on = [aws_internet_gateway.internet]
}

resource "aws_route_table" "public" {
  vpc_id = aws_vpc.vpc.id

  route {
    cidr_block = "0.0.0.0/0"
    gateway_id = aws_internet_gateway.internet.id
  }
}

resource "aws_route_table" "private" {
  vpc_id = aws_vpc.vpc.id

  route {
    cidr_block     = "0.0.0.0/0"
    nat_gateway_id = aws_nat_gateway.nat.id
  }
}

resource "aws_route_table_association" "public" {
  for_each = aws_subnet.public

  subnet_id      = each.value.id
  route_table_id = aws_route_table.public.id
}

resource "aws_route_table_association" "private" {
  for_each = aws_subnet.private

  subnet_id      = each.value.id
  route_table_id = aws_route_table.private.id
}

# Nodes of Karpenter find the security group of the cluster by this tag.
resource "aws_ec2_tag" "cluster_security_group" {
  resource_id = aws_eks_cluster.cluster.vpc_config[0].cluster_security_group_id
  key         = "karpenter.sh/discovery"
  value       = var.cluster
}
