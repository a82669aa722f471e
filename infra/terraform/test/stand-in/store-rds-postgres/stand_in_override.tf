# moto looks for the subnet group of a replica in the region of its source.
resource "aws_db_instance" "this" {
  db_subnet_group_name = local.is_primary ? aws_db_subnet_group.this.name : null
}
