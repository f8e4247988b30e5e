"""Groups of words that mean much the same where tools are concerned. General English; no set's own words.

To add one, write a line. A word may be in several groups; forms of a word need no entry of their own. What is short for
another word stands for it nearly as well as the word itself.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from .text import stemmer

GROUPS: Final = """
get fetch retrieve obtain read load pull
find search lookup query discover locate
show display view present
list enumerate browse all
create make generate build produce new
add insert append attach include
update edit modify change alter revise adjust
delete remove erase drop clear destroy discard
cancel abort revoke undo
send deliver dispatch transmit post
notify alert remind reminder notification
save store persist keep record
compute calculate calculator calculation determine
convert conversion converter transform exchange translate
compare comparison versus difference
analyze analysis evaluate assess examine inspect
check verify validate test confirm
estimate predict prediction forecast projection
recommend recommendation suggest suggestion advise advice tip
book reserve reservation booking schedule
schedule appointment calendar agenda event meeting
buy purchase order shop shopping
sell sale
pay payment transaction charge
price cost fee rate
cheap affordable discount deal bargain coupon voucher
money cash fund currency finance
invest investment portfolio stock share trading
start launch begin run execute
stop halt terminate end kill
open access
enable activate
disable deactivate
join merge combine concatenate
split divide separate
sort order arrange rank
count number total amount sum quantity
mean average
maximum highest largest top
minimum lowest smallest
film movie cinema
song music track audio tune
picture image photo photograph illustration
drawing diagram chart graph plot visualization
video clip footage youtube
news article headline
paper publication research study journal
document file pdf
website site page web url link
email mail inbox message
text sms message
chat conversation talk
phone telephone mobile call
user account profile customer client member
person people human
employee staff worker personnel
job career employment vacancy position occupation
resume cv
company business firm organization corporation enterprise
product item goods merchandise
shop store retailer market
weather temperature climate rain meteorological
trip travel journey tour itinerary vacation holiday
hotel accommodation lodging stay
flight plane airline airfare
car vehicle automobile auto
taxi cab ride uber
route direction navigation path
map location place address geographic
city town municipality
country nation
house home property apartment estate
food meal dish cuisine
recipe cooking cook ingredient
restaurant dining eatery cafe
drink beverage
doctor physician medical health
medicine drug medication pharmaceutical
disease illness condition symptom
exercise workout fitness training
game play player gaming
child kid children
pet animal dog cat
book novel literature
learn teach education study course lesson tutor
school university college
student pupil
exam test quiz
translate language
write compose draft author
summarize summary abstract
rewrite paraphrase rephrase
spell grammar proofread
code program programming software script
bug error defect fault issue
repository repo git github
database table sql
server host machine
password credential login authentication
delete cancel unsubscribe
law legal lawyer attorney
tax taxation
gift present
job task todo
picture logo design
domain website dns
horoscope zodiac astrology
tarot fortune divination
wallet crypto cryptocurrency bitcoin blockchain
token nft
time clock hour
date day
distance length
weight mass
speed velocity
size dimension
area surface
review rating feedback opinion
ticket event concert
story tale narrative fiction
""".strip()

SHORT: Final = """
addr address
admin administrator administration
app application
arg argument
attr attribute
auth authentication authorization authenticate authorize
avg average
calc calculate calculator calculation
cert certificate
cfg configuration configure
cmd command
config configuration configure
conn connection
coord coordinate
cp copy duplicate
db database
del delete
dept department
desc description
dest destination
dev development developer
dir directory folder
doc document documentation
docs documentation document
env environment
eval evaluate evaluation
exec execute execution
expr expression
fmt format
freq frequency
func function
gen generate generation
geo geographic
hist history
id identifier
img image
info information
init initialize
intl international
lang language
lib library
loc location
ls list
max maximum
mgmt management
mgr manager
min minimum
mk make create
msg message
mv move rename
num number
obj object
org organization
param parameter
perf performance
perm permission
pr pull
pic picture
pkg package
pref preference
prev previous
proc process
pwd password
qty quantity
ref reference
repo repository
req request
rm remove
sched schedule
spec specification
src source
stat statistic
str string
svc service
sync synchronize
sys system
tel telephone
temp temperature temporary
txn transaction
txt text
usr user
util utility
val value
ver version
vol volume
""".strip()
"""Short forms as names of tools and parameters have them, each before the words that it is short for."""


@cache
def shortened() -> dict[str, tuple[str, ...]]:
    """The stems of what a stem is short for, or of the short forms it has."""
    stem = stemmer()
    found: dict[str, dict[str, None]] = {}
    for line in SHORT.splitlines():
        first, *rest = line.split()
        forms = [stem(first), stem(f"{first}s")]  # without a vowel a plural is no form of its word to a stemmer
        wholes = [stem(word) for word in rest]
        for one, others in (*((form, forms + wholes) for form in forms), *((whole, forms) for whole in wholes)):
            found.setdefault(one, {}).update(dict.fromkeys(other for other in others if other != one))
    return {one: tuple(others) for one, others in found.items()}


@cache
def groups() -> dict[str, tuple[str, ...]]:
    """The stems that stand beside a stem in some group."""
    stem = stemmer()
    found: dict[str, dict[str, None]] = {}
    for line in GROUPS.splitlines():
        stems = [stem(word) for word in line.split()]
        for one in stems:
            found.setdefault(one, {}).update(dict.fromkeys(other for other in stems if other != one))
    return {one: tuple(others) for one, others in found.items()}
