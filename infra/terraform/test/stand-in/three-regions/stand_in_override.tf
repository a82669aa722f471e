# moto answers no question for the zones of a VPC, which the provider asks after each association.
resource "aws_route53_zone_association" "east_for_west" { count = 0 }
resource "aws_route53_zone_association" "east_for_europe" { count = 0 }
resource "aws_route53_zone_association" "west_for_east" { count = 0 }
resource "aws_route53_zone_association" "west_for_europe" { count = 0 }
resource "aws_route53_zone_association" "europe_for_east" { count = 0 }
resource "aws_route53_zone_association" "europe_for_west" { count = 0 }
