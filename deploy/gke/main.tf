# A GKE cluster whose GPU pools grow from zero: one CPU pool and one GPU pool for each number of GPUs per node.
# docs/nodes.md explains the choices. Create:  terraform -chdir=deploy/gke apply -var project=PROJECT
# Remove everything:  terraform -chdir=deploy/gke destroy -var project=PROJECT
terraform {
  required_version = ">= 1.5"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 7.0, < 9.0"
    }
  }
}

provider "google" {
  credentials = var.credentials == null ? null : file(var.credentials)
  project     = var.project
  zone        = var.zone
}

resource "google_container_cluster" "cluster" {
  name     = var.cluster
  location = var.zone

  # Pools are separate resources, so that a changed pool does not replace the cluster.
  remove_default_node_pool = true
  initial_node_count       = 1

  # Without this, terraform destroy refuses to delete the cluster.
  deletion_protection = false

  release_channel {
    channel = "REGULAR"
  }

  cluster_autoscaling {
    enabled             = false # node auto-provisioning: the pools below are all that may exist
    autoscaling_profile = var.autoscaling_profile
  }
}
