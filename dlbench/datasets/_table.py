"""The published data sets: one row each, with address, checksums, sizes and class names.

`TABLE` maps a plugin's name to its row.
"""

from collections.abc import Mapping

from dlbench.datasets._cifar import Archive, Cifar, Cifar10Options, Cifar100Options
from dlbench.datasets._download import RemoteFile
from dlbench.datasets._keras import Images, Words

CIFAR = "https://www.cs.toronto.edu/~kriz"
KERAS = "https://storage.googleapis.com/tensorflow/tf-keras-datasets"


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


CIFAR10_CLASSES = _words("airplane automobile bird cat deer dog frog horse ship truck")
CIFAR100_GROUPS = _words(
    """aquatic_mammals fish flowers food_containers fruit_and_vegetables household_electrical_devices
    household_furniture insects large_carnivores large_man-made_outdoor_things large_natural_outdoor_scenes
    large_omnivores_and_herbivores medium_mammals non-insect_invertebrates people reptiles small_mammals trees
    vehicles_1 vehicles_2"""
)
CIFAR100_CLASSES = _words(
    """apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
    caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant
    flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree
    motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate
    poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider
    squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle
    wardrobe whale willow_tree wolf woman worm"""
)
FASHION_CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
REUTERS_TOPICS = _words(
    """cocoa grain veg-oil earn acq wheat copper housing money-supply coffee sugar trade reserves ship cotton carcass
    crude nat-gas cpi money-fx interest gnp meal-feed alum oilseed gold tin strategic-metal livestock retail ipi
    iron-steel rubber heat jobs lei bop zinc orange pet-chem dlr gas silver wpi hog lead"""
)

TABLE: Mapping[str, Cifar | Images | Words] = {
    "cifar10": Cifar(
        doc="CIFAR-10: 50,000 + 10,000 color images of 32 x 32 in 10 classes; the official archive.",
        OPTIONS=Cifar10Options,
        source=RemoteFile(
            f"{CIFAR}/cifar-10-binary.tar.gz", "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
        ),
        binary=Archive(
            name="cifar-10-binary.tar.gz",
            folder="cifar-10-batches-bin",
            train={
                "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
                "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
                "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
                "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
                "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
            },
            test={"test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"},
        ),
        python=Archive(
            name="cifar-10-python.tar.gz",
            folder="cifar-10-batches-py",
            train={
                "data_batch_1": "c99cafc152244af753f735de768cd75f",
                "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
                "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
                "data_batch_4": "634d18415352ddfa80567beed471001a",
                "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            },
            test={"test_batch": "40351d587109b95175f43aff81a1287e"},
        ),
        class_names={"labels": CIFAR10_CLASSES},
    ),
    "cifar100": Cifar(
        doc="CIFAR-100: 50,000 + 10,000 color images of 32 x 32 in 100 classes or 20 groups of them.",
        OPTIONS=Cifar100Options,
        source=RemoteFile(
            f"{CIFAR}/cifar-100-binary.tar.gz", "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"
        ),
        binary=Archive(
            name="cifar-100-binary.tar.gz",
            folder="cifar-100-binary",
            train={"train.bin": "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29"},
            test={"test.bin": "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a"},
        ),
        python=Archive(
            name="cifar-100-python.tar.gz",
            folder="cifar-100-python",
            train={"train": "16019d7e3df5f24257cddd939b257f8d"},
            test={"test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
        ),
        class_names={"coarse": CIFAR100_GROUPS, "fine": CIFAR100_CLASSES},
    ),
    "keras:mnist": Images(
        doc="MNIST as Keras ships it: 60,000 + 10,000 handwritten digits of 28 x 28 pixels.",
        name="mnist",
        shape=(28, 28, 1),
        class_names=tuple("0123456789"),
        num_train=60_000,
        num_test=10_000,
    ),
    "keras:fashion_mnist": Images(
        doc="Fashion-MNIST as Keras ships it: 60,000 + 10,000 images of clothes, 28 x 28 pixels, in 10 classes.",
        name="fashion_mnist",
        shape=(28, 28, 1),
        class_names=FASHION_CLASSES,
        num_train=60_000,
        num_test=10_000,
        files={  # md5 as its authors publish them: https://github.com/zalandoresearch/fashion-mnist
            f"{KERAS}/train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            f"{KERAS}/train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
            f"{KERAS}/t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
            f"{KERAS}/t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
        },
    ),
    "keras:imdb": Words(
        doc="Film reviews of IMDB as Keras ships them: 25,000 + 25,000 texts as numbers of words, in 2 classes.",
        name="imdb",
        class_names=("negative", "positive"),
        num_train=25_000,
        num_test=25_000,
    ),
    "keras:reuters": Words(
        doc="News of Reuters as Keras ships them: 8,982 + 2,246 texts as numbers of words, in 46 topics.",
        name="reuters",
        class_names=REUTERS_TOPICS,
        num_train=8_982,
        num_test=2_246,
    ),
}
